use std::collections::BTreeMap;

use clap::Args;
use jobq::admin::Counts;
use jobq::moving::{Move, Moved};
use jobq::setting;
use serde::Serialize;

use crate::end::{End, Ended, Problem};
use crate::options::Options;
use crate::output::Output;
use crate::output::progress::Bar;
use crate::output::table::{Align, Cell, Table};
use crate::signals;

/// Move jobs from a job file to a broker, from broker to broker, or to a job file
///
/// Waiting, failed and suspected jobs, events that wait, pauses and the schedules of clients move as they
/// are, in one namespace. Pools may run on both sides. Ends when the source is empty. After an error, or a
/// kill, run it again: it goes on. From a broker, it needs `--management` with the API of that broker.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Job file or broker to move from: `sqlite://jobs.db`
    #[arg(env = "JOBQ_SOURCE_URL", hide_env_values = true)]
    source: String,

    /// Broker or job file to move to: `amqp://user:password@host`. Other users of the machine can see the
    /// command line: put passwords in the environment variable
    #[arg(env = "JOBQ_TARGET_URL", hide_env_values = true)]
    target: String,

    /// Move the jobs of this queue alone; repeat for several. Events that wait stay, and so do jobs in the
    /// delay levels of RabbitMQ until they are due
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,

    /// Go on when the source is empty, until Ctrl-C or SIGTERM
    #[arg(long)]
    follow: bool,

    /// Print how many jobs there are to move, and move none
    #[arg(long, conflicts_with = "follow")]
    dry_run: bool,
}

const COLUMNS: [(&str, Align); 4] = [
    ("QUEUE", Align::Left),
    ("READY", Align::Right),
    ("WAITING", Align::Right),
    ("FAILED", Align::Right),
];

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let Arguments { source, target, queue, follow, dry_run } = arguments;
    setting::check("SOURCE (JOBQ_SOURCE_URL)", &source)?;
    setting::check("TARGET (JOBQ_TARGET_URL)", &target)?;
    if source == target {
        return Err(Problem::Usage("SOURCE and TARGET are the same; name two".to_owned()));
    }
    let from = options.client_of(&source).await?;
    let to = options.further_client(&target).await?;
    let moving = queue.iter().fold(Move::new(&from, &to), Move::queue);
    if dry_run {
        return plan(&moving.plan().await?, output);
    }
    let moving = if follow { moving.follow() } else { moving };
    let bar = Bar::new(output);
    let moved = moving.run_until(signals::stop(), |moved| bar.say(&sentence(moved))).await;
    bar.clear();
    let moved = moved?;
    from.close().await;
    to.close().await;
    report(moved, output)
}

fn plan(plan: &BTreeMap<String, Counts>, output: Output) -> Ended {
    let rows = plan.iter().map(|(queue, Counts { ready, waiting, failed, .. })| {
        let figures = [ready, waiting, failed].map(Cell::from);
        [Cell::from(queue)].into_iter().chain(figures).collect::<Vec<_>>()
    });
    let table = Table::new(&COLUMNS, rows);
    output.listing(BTreeMap::from([("queues", plan)]), &table, Vec::new())?;
    Ok(End::Done)
}

#[derive(Serialize)]
struct Document<'m> {
    jobs: u64,
    suspected: u64,
    failed: u64,
    events: u64,
    paused: u64,
    schedules: u64,
    held_schedules: &'m [String],
    refused: u64,
    refusals: Vec<Refusal>,
    error: Option<String>,
}

#[derive(Serialize)]
struct Refusal {
    id: String,
    error: String,
}

fn report(mut moved: Moved, output: Output) -> Ended {
    let end = moved.end.take();
    let refusals = moved.refusals.iter();
    let refusals =
        refusals.map(|(id, error)| Refusal { id: id.to_string(), error: error.to_string() });
    let document = Document {
        jobs: moved.jobs,
        suspected: moved.suspected,
        failed: moved.failed,
        events: moved.events,
        paused: moved.paused,
        schedules: moved.schedules,
        held_schedules: &moved.held_schedules,
        refused: moved.refused,
        refusals: refusals.collect(),
        error: end.as_ref().map(ToString::to_string),
    };
    output.answer(&document, || format!("{}\n", sentence(&moved)))?;
    if !output.is_json() {
        output.notes(notes(&moved));
    }
    match end {
        Some(error) => {
            output.error(&format!("{error}\n  run the command again to go on"));
            Ok(End::Partly)
        }
        None if moved.refused == 0 => Ok(End::Done),
        None => Ok(End::Partly),
    }
}

fn notes(moved: &Moved) -> Vec<String> {
    let refusals = moved.refusals.iter().map(|(id, error)| format!("job {id} stays: {error}"));
    let more = moved.refused - moved.refusals.len() as u64;
    let more = (more > 0).then(|| format!("{more} further jobs stay"));
    let held = moved.held_schedules.iter().map(|queue| {
        format!(
            "the schedules of queue `{queue}` stay: a pool holds them; stop the pools of the source, and \
             run the command again"
        )
    });
    refusals.chain(more).chain(held).collect()
}

fn sentence(moved: &Moved) -> String {
    let Moved { jobs, suspected, failed, events, paused, schedules, refused, .. } = moved;
    let always = [(*jobs, "jobs"), (*failed, "failed jobs")];
    let others = [
        (*suspected, "suspected jobs"),
        (*events, "events"),
        (*schedules, "schedules"),
        (*paused, "pauses"),
        (*refused, "refused"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    let counts = always.into_iter().chain(others).map(|(count, what)| format!("{count} {what}"));
    format!("moved {}", counts.collect::<Vec<_>>().join(", "))
}
