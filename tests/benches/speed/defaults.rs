//! Measurements behind the defaults: plain lapin and rusqlite with other prefetches, windows, connections and
//! transactions. What is best for it is so for jobq, which hands the same frames and statements
//! to the same library.

use std::fmt::Write as _;

use crate::case::{Case, Tuning};
use crate::growth::Plan;
use crate::options::Options;
use crate::process::{Store, Under};
use crate::sample::Sample;
use crate::scenario::{Engine, Scenario, Side};
use crate::table::{head, number, row, spread};

/// What is varied.
#[derive(Debug, Clone, Copy)]
enum Setting {
    Prefetch,
    Connections,
    Window,
    Inserted,
    Taken,
}

/// What came of each value.
#[derive(Debug)]
pub(crate) struct Found {
    setting: Setting,
    values: Vec<(u16, Vec<Sample>)>,
}

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let plan = Plan::take(&mut options)?;
    options.finish()?;
    println!("{}", tables(&measure(&plan).await?));
    Ok(())
}

impl Setting {
    const ALL: [Self; 5] =
        [Self::Prefetch, Self::Connections, Self::Window, Self::Inserted, Self::Taken];

    fn name(self) -> &'static str {
        match self {
            Self::Prefetch => "jobs that are prefetched",
            Self::Connections => "connections that take jobs",
            Self::Window => "publishes that may be unconfirmed",
            Self::Inserted => "jobs that a transaction inserts at most",
            Self::Taken => "jobs that a transaction takes at most",
        }
    }

    fn scenario(self) -> (Engine, Scenario) {
        match self {
            Self::Prefetch | Self::Connections => (Engine::RabbitMq, Scenario::Drain),
            Self::Window => (Engine::RabbitMq, Scenario::EnqueueAll),
            Self::Inserted => (Engine::Sqlite, Scenario::Enqueue),
            Self::Taken => (Engine::Sqlite, Scenario::Drain),
        }
    }

    fn values(self) -> &'static [u16] {
        match self {
            Self::Prefetch => &[10, 100, 356, 1_000, 10_000],
            Self::Connections => &[1, 2, 4],
            Self::Window => &[10, 100, 1_000, 10_000],
            Self::Inserted => &[1, 8, 64],
            Self::Taken => &[1, 16, 256, 4_096],
        }
    }

    fn tuning(self, value: u16) -> Tuning {
        let usual = Tuning::USUAL;
        match self {
            Self::Prefetch => Tuning { prefetch: value, ..usual },
            Self::Connections => Tuning { connections: value, ..usual },
            Self::Window => Tuning { window: value.into(), ..usual },
            Self::Inserted | Self::Taken => Tuning { batch: value.into(), ..usual },
        }
    }

    /// Fewer where each takes a transaction or a round trip of its own.
    fn jobs(self, value: u16, quick: bool) -> u32 {
        let jobs = if value < 16 && !matches!(self, Self::Connections) { 20_000 } else { 100_000 };
        if quick { jobs / 20 } else { jobs }
    }
}

pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Found>> {
    let mut all = Vec::new();
    for setting in Setting::ALL {
        let (engine, scenario) = setting.scenario();
        let mut store = Store::start(engine).await;
        let none = setting.values().iter().map(|value| (*value, Vec::new()));
        let mut found = Found { setting, values: none.collect() };
        // In turn, so that what else happens on the machine happens to all.
        for _ in 0..plan.rounds {
            for (value, samples) in &mut found.values {
                let jobs = setting.jobs(*value, plan.quick);
                let usual = Case::usual(engine, scenario, Side::Equal, jobs);
                let case = Case { tuning: setting.tuning(*value), ..usual };
                let sample = store.run(case, Under::Nothing).await?;
                eprintln!("{} {value}: {sample:?}", setting.name());
                samples.push(sample);
            }
        }
        all.push(found);
    }
    Ok(all)
}

pub(crate) fn tables(found: &[Found]) -> String {
    let mut text = String::new();
    for Found { setting, values } in found {
        let (engine, scenario) = setting.scenario();
        let titles = [setting.name(), "jobs a second", "CPU a job, µs", "memory, MB"];
        let _ = writeln!(text, "**{} {scenario}**\n\n{}", engine.name(), head(&titles));
        for (value, samples) in values {
            let all = |figure: fn(&Sample) -> f64, decimals| {
                spread(samples.iter().map(figure).collect(), decimals)
            };
            let cells = [
                number(f64::from(*value), 0),
                all(Sample::jobs_a_second, 0),
                all(Sample::micros_a_job, 1),
                all(Sample::megabytes, 1),
            ];
            let _ = writeln!(text, "{}", row(&cells));
        }
        text.push('\n');
    }
    text
}
