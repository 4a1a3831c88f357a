//! Instructions and allocations a job, under callgrind.
//!
//! Both are the slope between two numbers of jobs, so that starting, connecting and declaring
//! cancel out. Time drifts with what else the machine does; these do not, so that they are what
//! can be a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, bail};
use jobq_tests::files::Directory;

use crate::callgrind::{self, Profile};
use crate::case::Case;
use crate::goal::{self, Goal};
use crate::options::Options;
use crate::process::{Store, Under};
use crate::scenario::{Engine, Scenario, Side};
use crate::table::{head, number, row};

/// The two numbers of jobs. A process under callgrind is some fifty times slower.
const JOBS: [u32; 2] = [2_000, 12_000];

/// The most instructions a job that jobq may take with `--check`: what it took when the bound
/// was set (31,200, 30,100, 37,700 and 17,800), and a tenth. From run to run they differ by
/// 3 in 100, and between one processor and two by 4. Whoever makes jobq faster lowers them.
const BOUNDS: [(Engine, Scenario, u32); 4] = [
    (Engine::RabbitMq, Scenario::Drain, 34_300),
    (Engine::RabbitMq, Scenario::Enqueue, 33_100),
    (Engine::Sqlite, Scenario::Drain, 41_400),
    (Engine::Sqlite, Scenario::Enqueue, 19_500),
];

/// What a worker on RabbitMQ is to come to.
const GOAL: f64 = 27_000.0;

/// Callers that allocate more rarely than this are not listed.
const RARELY: f64 = 0.05;

/// What one job takes.
#[derive(Debug)]
struct Cost {
    instructions: f64,
    /// By the function that asks for the memory.
    allocations: BTreeMap<String, f64>,
}

impl Cost {
    fn between([few, many]: [&Profile; 2]) -> Self {
        let jobs = f64::from(JOBS[1] - JOBS[0]);
        #[allow(clippy::cast_precision_loss)] // no process does so much
        let slope = |few: u64, many: u64| (many as f64 - few as f64) / jobs;
        let callers = many.allocations.iter().map(|(caller, many)| {
            let few = few.allocations.get(caller).copied().unwrap_or_default();
            (caller.clone(), slope(few, *many))
        });
        Self {
            instructions: slope(few.instructions, many.instructions),
            allocations: callers.collect(),
        }
    }

    fn all_allocations(&self) -> f64 {
        self.allocations.values().sum()
    }
}

/// What one scenario takes on both sides.
#[derive(Debug)]
pub(crate) struct Found {
    engine: Engine,
    scenario: Scenario,
    bound: u32,
    raw: Cost,
    /// Of plain `lapin` with messages like jobq's.
    alike: Option<Cost>,
    jobq: Cost,
}

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let check = options.flag("--check")?;
    options.finish()?;
    // What nothing is compared with is not worth a minute each time.
    let found = measure(!check).await?;
    println!("{}\n{}\n{}", goal::table(&goals(&found)), table(&found), callers(&found));
    let over: Vec<_> = found.iter().filter_map(Found::over).collect();
    if check && !over.is_empty() {
        bail!(
            "{}\nThe functions of jobq that `callgrind_annotate` shows on top are where to look; \
             the bounds are in tests/benches/speed/instructions.rs",
            over.join("\n")
        );
    }
    Ok(())
}

pub(crate) async fn measure(with_alike: bool) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for engine in [Engine::RabbitMq, Engine::Sqlite] {
        let mut store = Store::start(engine).await;
        for (_, scenario, bound) in BOUNDS.into_iter().filter(|(of, ..)| *of == engine) {
            let mut cost = async |side| cost(&mut store, engine, scenario, side).await;
            let (raw, jobq) = (cost(Side::Raw).await?, cost(Side::Jobq).await?);
            let alike = match engine {
                Engine::RabbitMq if with_alike => Some(cost(Side::Alike).await?),
                _ => None,
            };
            found.push(Found { engine, scenario, bound, raw, alike, jobq });
        }
    }
    Ok(found)
}

async fn cost(
    store: &mut Store,
    engine: Engine,
    scenario: Scenario,
    side: Side,
) -> anyhow::Result<Cost> {
    let folder = Directory::new();
    let mut profiles = Vec::new();
    for jobs in JOBS {
        let (case, file) = (Case::usual(engine, scenario, side, jobs), folder.file("profile"));
        store.run(case, Under::Callgrind(&file)).await?;
        let text = fs::read_to_string(&file).context("callgrind has written its file")?;
        let profile = callgrind::parse(&text)?;
        eprintln!("{case:?}: {} instructions", profile.instructions);
        profiles.push(profile);
    }
    Ok(Cost::between([&profiles[0], &profiles[1]]))
}

impl Found {
    fn name(&self) -> String {
        format!("{} {}", self.engine.name(), self.scenario)
    }

    /// What is wrong where it is over its bound.
    fn over(&self) -> Option<String> {
        let (found, bound) = (self.jobq.instructions, f64::from(self.bound));
        (found > bound).then(|| {
            format!(
                "{}: jobq takes {} instructions a job, at most {} are allowed",
                self.name(),
                number(found, 0),
                number(bound, 0)
            )
        })
    }
}

pub(crate) fn goals(found: &[Found]) -> Vec<Goal> {
    let worker = |found: &&Found| (found.engine, found.scenario) == (BOUNDS[0].0, BOUNDS[0].1);
    let goal = |found: &Found| {
        let what = format!("{}, instructions a job", found.name());
        Goal::at_most(what, GOAL, found.jobq.instructions, 0)
    };
    found.iter().filter(worker).map(goal).collect()
}

pub(crate) fn table(found: &[Found]) -> String {
    let titles = [
        "",
        "instructions a job: raw",
        "with such messages",
        "jobq",
        "bound",
        "allocations a job: raw",
        "with such messages",
        "jobq",
    ];
    let mut lines = vec![head(&titles)];
    lines.extend(found.iter().map(|found| {
        let alike = |figure: fn(&Cost) -> f64, decimals| {
            found.alike.as_ref().map_or_else(String::new, |cost| number(figure(cost), decimals))
        };
        row(&[
            found.name(),
            number(found.raw.instructions, 0),
            alike(|cost| cost.instructions, 0),
            number(found.jobq.instructions, 0),
            number(f64::from(found.bound), 0),
            number(found.raw.all_allocations(), 1),
            alike(Cost::all_allocations, 1),
            number(found.jobq.all_allocations(), 1),
        ])
    }));
    lines.join("\n") + "\n"
}

/// Who asks for memory, and how often a job: first those who do so more often than raw.
pub(crate) fn callers(found: &[Found]) -> String {
    let mut text = String::new();
    for found in found {
        let (raw, jobq) = (&found.raw.allocations, &found.jobq.allocations);
        let names: BTreeSet<_> = raw.keys().chain(jobq.keys()).collect();
        let count = |of: &BTreeMap<_, f64>, name| of.get(name).copied().unwrap_or_default();
        let counted = names.into_iter().map(|name| (name, [count(raw, name), count(jobq, name)]));
        let mut often: Vec<_> =
            counted.filter(|(_, [raw, jobq])| raw.max(*jobq) >= RARELY).collect();
        often.sort_by(|(_, [raw, jobq]), (_, [other_raw, other_jobq])| {
            (other_jobq - other_raw).total_cmp(&(jobq - raw))
        });
        let _ = writeln!(text, "**{}**\n\n{}", found.name(), head(&["raw", "jobq", "by"]));
        for (name, counts) in often {
            let [raw, jobq] = counts.map(|count| number(count, 2));
            let _ = writeln!(text, "{}", row(&[raw, jobq, format!("`{name}`")]));
        }
        text.push('\n');
    }
    text
}
