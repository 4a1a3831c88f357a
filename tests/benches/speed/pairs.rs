//! Each scenario on all sides in turn, so that what else happens on the machine happens to
//! all, and the ratios of the neighbours.

use std::fmt;
use std::path::PathBuf;

use anyhow::ensure;

use crate::case::Case;
use crate::goal::{self, Goal};
use crate::options::Options;
use crate::process::{Store, Under};
use crate::sample::Sample;
use crate::scenario::{Engine, Scenario, Side};
use jobq_tests::measured::table::{head, median, row, spread};

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Plan {
    engines: Vec<Engine>,
    scenarios: Vec<Scenario>,
    pub(crate) extent: Extent,
    /// Where another RabbitMQ is installed than that of the tests.
    root: Option<PathBuf>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) pairs: usize,
    scale: f64,
}

/// One run of each side, one right after the other.
#[derive(Debug)]
struct Pair {
    /// The library alone, with the guarantees of jobq.
    equal: Sample,
    /// The library alone, with messages that say nothing but their payload.
    bare: Option<Sample>,
    jobq: Sample,
}

/// What one scenario came to.
#[derive(Debug)]
pub(crate) struct Found {
    engine: Engine,
    scenario: Scenario,
    pairs: Vec<Pair>,
}

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let root = options.take("--root", "", root)?;
    let plan = Plan { root, ..Plan::take(&mut options)? };
    options.finish()?;
    let found = measure(&plan).await?;
    let (table, bare, goals) = (table(&found), bare_table(&found), goals(&found));
    println!("{table}\n{bare}\n{}", goal::table(&goals));
    Ok(())
}

impl Plan {
    pub(crate) fn take(options: &mut Options) -> anyhow::Result<Self> {
        Ok(Self {
            engines: options.take("--engine", "both", |text| match text {
                "both" => Ok(vec![Engine::RabbitMq, Engine::Sqlite]),
                one => one.parse().map(|engine| vec![engine]),
            })?,
            scenarios: options.take("--scenario", "all", |text| match text {
                "all" => anyhow::Ok(Scenario::ALL.to_vec()),
                one => one.parse().map(|scenario| vec![scenario]),
            })?,
            extent: Extent::take(options)?,
            root: None,
        })
    }

    /// The same on the RabbitMQ that is installed under this root, and on nothing else.
    pub(crate) fn on(&self, root: PathBuf) -> Self {
        let (engines, root) = (vec![Engine::RabbitMq], Some(root));
        Self { engines, scenarios: self.scenarios.clone(), extent: self.extent, root }
    }
}

/// The root of a system, if it is stated.
pub(crate) fn root(text: &str) -> anyhow::Result<Option<PathBuf>> {
    Ok(if text.is_empty() { None } else { Some(std::path::absolute(text)?) })
}

impl Extent {
    pub(crate) fn take(options: &mut Options) -> anyhow::Result<Self> {
        let extent = Self {
            pairs: options.take("--pairs", "5", str::parse)?,
            scale: options.take("--scale", "1", str::parse)?,
        };
        ensure!(extent.pairs > 0 && extent.scale > 0.0, "there is nothing to measure");
        Ok(extent)
    }

    /// How many jobs a run has.
    pub(crate) fn jobs(self, engine: Engine, scenario: Scenario) -> u32 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some thousands
        let jobs = (f64::from(scenario.jobs(engine)) * self.scale) as u32;
        jobs.max(1)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, scale } = self;
        write!(f, "{pairs} pairs of runs, with {scale} times the usual number of jobs")
    }
}

pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Found>> {
    let mut all = Vec::new();
    for engine in plan.engines.iter().copied() {
        let mut store = Store::start_in(engine, plan.root.clone()).await;
        eprintln!("{}", store.name().await);
        let has = |scenario: &&Scenario| has(engine, **scenario);
        for scenario in plan.scenarios.iter().filter(has).copied() {
            let jobs = plan.extent.jobs(engine, scenario);
            let mut found = Found { engine, scenario, pairs: Vec::new() };
            for round in 0..plan.extent.pairs {
                let pair = pair(&mut store, engine, scenario, jobs, round).await?;
                eprintln!("{}: {pair:?}", found.name());
                found.pairs.push(pair);
            }
            eprintln!("{}", found.row());
            all.push(found);
        }
    }
    Ok(all)
}

async fn pair(
    store: &mut Store,
    engine: Engine,
    scenario: Scenario,
    jobs: u32,
    round: usize,
) -> anyhow::Result<Pair> {
    let (sides, mut samples) = (sides(engine), Vec::new());
    // None is always the first.
    let turn = round % sides.len();
    for side in sides.iter().cycle().skip(turn).take(sides.len()).copied() {
        let case = Case::usual(engine, scenario, side, jobs);
        samples.push(store.run(case, Under::Nothing).await?);
    }
    samples.rotate_right(turn);
    let mut samples = samples.into_iter();
    let (Some(equal), Some(own)) = (samples.next(), samples.next_back()) else {
        unreachable!("there are two sides or more");
    };
    Ok(Pair { equal, bare: samples.next(), jobq: own })
}

fn sides(engine: Engine) -> &'static [Side] {
    match engine {
        Engine::RabbitMq => &[Side::Equal, Side::Bare, Side::Jobq],
        // Its rows keep all guarantees.
        Engine::Sqlite => &[Side::Equal, Side::Jobq],
    }
}

/// SQLite alone has nothing that is a retry.
fn has(engine: Engine, scenario: Scenario) -> bool {
    (engine, scenario) != (Engine::Sqlite, Scenario::Retry)
}

/// Jobs a second; where the latency is measured, microseconds.
fn speed(sample: &Sample) -> f64 {
    match sample.latency {
        #[allow(clippy::cast_precision_loss)] // none takes so long
        Some([half, _]) => half as f64,
        None => sample.jobs_a_second(),
    }
}

/// The speed of one as a part of another one's.
fn part(one: &Sample, of: &Sample) -> f64 {
    speed(one) / speed(of)
}

fn cpu_part(one: &Sample, of: &Sample) -> f64 {
    one.micros_a_job() / of.micros_a_job()
}

fn speeds(pair: &Pair) -> f64 {
    part(&pair.jobq, &pair.equal)
}

impl Found {
    fn name(&self) -> String {
        format!("{} {}", self.engine.name(), self.scenario)
    }

    fn all(&self, figure: impl Fn(&Pair) -> f64) -> Vec<f64> {
        self.pairs.iter().map(figure).collect()
    }

    fn row(&self) -> String {
        let tail = |of: &dyn Fn(&Pair) -> &Sample| {
            let tails = self.pairs.iter().filter_map(|pair| Some(of(pair).latency?[1]));
            #[allow(clippy::cast_precision_loss)] // none takes so long
            let tails: Vec<_> = tails.map(|micros| micros as f64).collect();
            if tails.is_empty() { String::new() } else { format!("; p99 {}", spread(tails, 0)) }
        };
        row(&[
            self.name(),
            spread(self.all(|pair| speed(&pair.equal)), 0) + &tail(&|pair| &pair.equal),
            spread(self.all(|pair| speed(&pair.jobq)), 0) + &tail(&|pair| &pair.jobq),
            spread(self.all(speeds), 2),
            spread(self.all(|pair| pair.equal.micros_a_job()), 1),
            spread(self.all(|pair| pair.jobq.micros_a_job()), 1),
            spread(self.all(|pair| cpu_part(&pair.jobq, &pair.equal)), 2),
            spread(self.all(|pair| pair.equal.megabytes()), 1),
            spread(self.all(|pair| pair.jobq.megabytes()), 1),
        ])
    }

    /// Beside the library with bare messages, if that was measured.
    fn bare_row(&self) -> Option<String> {
        let bare: Option<Vec<_>> = self.pairs.iter().map(|pair| pair.bare.as_ref()).collect();
        let bare = bare?;
        let all = |figure: &dyn Fn(&Sample, &Pair) -> f64, decimals| {
            let pairs = bare.iter().zip(&self.pairs);
            spread(pairs.map(|(bare, pair)| figure(bare, pair)).collect(), decimals)
        };
        let broker = |sample: &Sample| sample.broker_micros_a_job().unwrap_or(f64::NAN);
        Some(row(&[
            self.name(),
            all(&|bare, _| speed(bare), 0),
            all(&|bare, pair| part(&pair.equal, bare), 2),
            all(&|bare, pair| part(&pair.jobq, bare), 2),
            all(&|bare, _| bare.micros_a_job(), 1),
            all(&|bare, pair| cpu_part(&pair.equal, bare), 2),
            all(&|bare, pair| cpu_part(&pair.jobq, bare), 2),
            all(&|bare, _| broker(bare), 1),
            all(&|_, pair| broker(&pair.equal), 1),
            all(&|_, pair| broker(&pair.jobq), 1),
        ]))
    }

    fn goals(&self) -> Vec<Goal> {
        let named = |what: &str| format!("{}, {what}", self.name());
        let memory = {
            let more = self.all(|pair| pair.jobq.megabytes() - pair.equal.megabytes());
            Goal::at_most(named("resident MB more than the library"), 4.0, median(more), 1)
        };
        let ratio = |goal| {
            let what = named("jobs a second, jobq / the library");
            Goal::at_least(what, goal, median(self.all(speeds)), 2)
        };
        match (self.engine, self.scenario) {
            (Engine::RabbitMq, Scenario::Enqueue | Scenario::EnqueueAll | Scenario::Drain) => {
                vec![ratio(0.85), memory]
            }
            (Engine::Sqlite, Scenario::Enqueue) => vec![ratio(0.8), memory],
            (Engine::Sqlite, Scenario::Drain) => {
                let found = median(self.all(|pair| speed(&pair.jobq)));
                vec![Goal::at_least(named("jobs a second"), 100_000.0, found, 0), memory]
            }
            (_, Scenario::Latency) => {
                let what = named("the median, jobq / the library");
                vec![Goal::at_most(what, 1.2, median(self.all(speeds)), 2), memory]
            }
            _ => vec![memory],
        }
    }
}

pub(crate) fn goals(found: &[Found]) -> Vec<Goal> {
    found.iter().flat_map(Found::goals).collect()
}

/// Beside the library with equal guarantees.
pub(crate) fn table(found: &[Found]) -> String {
    let mut lines = vec![head(&[
        "",
        "jobs a second: library",
        "jobq",
        "jobq / library",
        "CPU a job, µs: library",
        "jobq",
        "jobq / library",
        "memory, MB: library",
        "jobq",
    ])];
    lines.extend(found.iter().map(Found::row));
    lines.join("\n") + "\n"
}

/// Beside the library with bare messages.
pub(crate) fn bare_table(found: &[Found]) -> String {
    let mut lines = vec![head(&[
        "",
        "jobs a second: bare",
        "library / bare",
        "jobq / bare",
        "CPU a job, µs: bare",
        "library / bare",
        "jobq / bare",
        "the broker's, µs: bare",
        "library",
        "jobq",
    ])];
    lines.extend(found.iter().filter_map(Found::bare_row));
    lines.join("\n") + "\n"
}
