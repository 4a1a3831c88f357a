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
use jobq_tests::measured::table::{head, number, row};

/// The two numbers of jobs. A process under callgrind is some fifty times slower.
const JOBS: [u32; 2] = [2_000, 12_000];

/// The most instructions a job that jobq may take with `--check`: what it took when the bound
/// was set (29,700, 33,300, 35,200 and 19,700), and a tenth. From run to run they differ by
/// 3 in 100, and between one processor and two by 4. Whoever makes jobq faster lowers them.
const BOUNDS: [(Engine, Scenario, u32); 4] = [
    (Engine::RabbitMq, Scenario::Drain, 32_700),
    (Engine::RabbitMq, Scenario::Enqueue, 36_600),
    (Engine::Sqlite, Scenario::Drain, 38_700),
    (Engine::Sqlite, Scenario::Enqueue, 21_600),
];

/// The goals for a job on RabbitMQ, in instructions.
const GOALS: [(Scenario, f64); 2] = [(Scenario::Drain, 30_000.0), (Scenario::Enqueue, 33_000.0)];

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
    /// The library with the guarantees of jobq.
    equal: Cost,
    /// Plain `lapin` with bare payloads.
    bare: Option<Cost>,
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

pub(crate) async fn measure(with_bare: bool) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for engine in [Engine::RabbitMq, Engine::Sqlite] {
        let mut store = Store::start(engine).await;
        for (_, scenario, bound) in BOUNDS.into_iter().filter(|(of, ..)| *of == engine) {
            let mut cost = async |side| cost(&mut store, engine, scenario, side).await;
            let (equal, jobq) = (cost(Side::Equal).await?, cost(Side::Jobq).await?);
            let bare = match engine {
                Engine::RabbitMq if with_bare => Some(cost(Side::Bare).await?),
                _ => None,
            };
            found.push(Found { engine, scenario, bound, equal, bare, jobq });
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
    let goals = GOALS.into_iter().flat_map(|(scenario, goal)| {
        let is_it =
            move |found: &&Found| (found.engine, found.scenario) == (Engine::RabbitMq, scenario);
        found.iter().filter(is_it).map(move |found| {
            let what = format!("{}, instructions a job", found.name());
            Goal::at_most(what, goal, found.jobq.instructions, 0)
        })
    });
    goals.collect()
}

pub(crate) fn table(found: &[Found]) -> String {
    let titles = [
        "",
        "instructions a job: bare",
        "library",
        "jobq",
        "bound",
        "allocations a job: bare",
        "library",
        "jobq",
    ];
    let mut lines = vec![head(&titles)];
    lines.extend(found.iter().map(|found| {
        let bare = |figure: fn(&Cost) -> f64, decimals| {
            found.bare.as_ref().map_or_else(String::new, |cost| number(figure(cost), decimals))
        };
        row(&[
            found.name(),
            bare(|cost| cost.instructions, 0),
            number(found.equal.instructions, 0),
            number(found.jobq.instructions, 0),
            number(f64::from(found.bound), 0),
            bare(Cost::all_allocations, 1),
            number(found.equal.all_allocations(), 1),
            number(found.jobq.all_allocations(), 1),
        ])
    }));
    lines.join("\n") + "\n"
}

/// Allocations a job by caller, first those that exceed the library.
pub(crate) fn callers(found: &[Found]) -> String {
    let mut text = String::new();
    for found in found {
        let (library, jobq) = (&found.equal.allocations, &found.jobq.allocations);
        let names: BTreeSet<_> = library.keys().chain(jobq.keys()).collect();
        let count = |of: &BTreeMap<_, f64>, name| of.get(name).copied().unwrap_or_default();
        let counted =
            names.into_iter().map(|name| (name, [count(library, name), count(jobq, name)]));
        let mut often: Vec<_> =
            counted.filter(|(_, [library, jobq])| library.max(*jobq) >= RARELY).collect();
        often.sort_by(|(_, [library, jobq]), (_, [other_library, other_jobq])| {
            (other_jobq - other_library).total_cmp(&(jobq - library))
        });
        let _ = writeln!(text, "**{}**\n\n{}", found.name(), head(&["library", "jobq", "by"]));
        for (name, counts) in often {
            let [library, jobq] = counts.map(|count| number(count, 2));
            let _ = writeln!(text, "{}", row(&[library, jobq, format!("`{name}`")]));
        }
        text.push('\n');
    }
    text
}
