//! What the messages of jobq cost, whoever sends and takes them: plain `lapin` with bare ones and
//! with such, and jobq, in turn.

use crate::case::Case;
use crate::options::Options;
use crate::pairs::Extent;
use crate::process::{Store, Under};
use crate::sample::Sample;
use crate::scenario::{Engine, Scenario, Side};
use crate::table::{head, row, spread};

const SIDES: [Side; 3] = [Side::Raw, Side::Alike, Side::Jobq];

/// Those in which a message is sent or taken, and nothing else.
const SCENARIOS: [Scenario; 3] = [Scenario::Enqueue, Scenario::EnqueueAll, Scenario::Drain];

/// What one scenario came to.
#[derive(Debug)]
pub(crate) struct Found {
    scenario: Scenario,
    rounds: Vec<Round>,
}

/// What each side took, one right after the other.
#[derive(Debug)]
struct Round {
    bare: Sample,
    such: Sample,
    jobq: Sample,
}

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let extent = Extent::take(&mut options)?;
    options.finish()?;
    println!("{}", table(&measure(extent).await?));
    Ok(())
}

pub(crate) async fn measure(extent: Extent) -> anyhow::Result<Vec<Found>> {
    let engine = Engine::RabbitMq;
    let mut store = Store::start(engine).await;
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        let mut rounds = Vec::new();
        for round in 0..extent.pairs {
            let (mut sides, mut samples) = (SIDES, Vec::new());
            // None is always the first.
            sides.rotate_left(round % SIDES.len());
            for side in sides {
                let jobs = extent.jobs(engine, scenario);
                let case = Case::usual(engine, scenario, side, jobs);
                samples.push(store.run(case, Under::Nothing).await?);
            }
            samples.rotate_right(round % SIDES.len());
            let [bare, such, jobq] = samples.try_into().expect("one of each side");
            let round = Round { bare, such, jobq };
            eprintln!("messages, {scenario}: {round:?}");
            rounds.push(round);
        }
        all.push(Found { scenario, rounds });
    }
    Ok(all)
}

impl Found {
    fn row(&self) -> String {
        let all = |figure: &dyn Fn(&Round) -> f64, decimals| {
            spread(self.rounds.iter().map(figure).collect(), decimals)
        };
        let ratio = |of: &Sample, to: &Sample| of.jobs_a_second() / to.jobs_a_second();
        row(&[
            self.scenario.to_string(),
            all(&|round| round.bare.jobs_a_second(), 0),
            all(&|round| round.such.jobs_a_second(), 0),
            all(&|round| round.jobq.jobs_a_second(), 0),
            all(&|round| ratio(&round.such, &round.bare), 2),
            all(&|round| ratio(&round.jobq, &round.such), 2),
            all(&|round| round.bare.micros_a_job(), 1),
            all(&|round| round.such.micros_a_job(), 1),
            all(&|round| round.jobq.micros_a_job(), 1),
        ])
    }
}

pub(crate) fn table(found: &[Found]) -> String {
    let titles = [
        "",
        "jobs a second: bare",
        "such",
        "jobq",
        "such / bare",
        "jobq / such",
        "CPU a job, µs: bare",
        "such",
        "jobq",
    ];
    let mut lines = vec![head(&titles)];
    lines.extend(found.iter().map(Found::row));
    lines.join("\n") + "\n"
}
