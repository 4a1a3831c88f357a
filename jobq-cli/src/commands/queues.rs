use std::collections::BTreeMap;
use std::time::SystemTime;

use clap::Args;
use jobq::Client;
use jobq::admin::text;
use jobq::admin::{Figure, Overview, Passage, Pause, Percentiles, QueueOverview, Queues, State};

use crate::end::{End, Ended, Problem, checked};
use crate::options::Options;
use crate::output::Output;
use crate::output::colour::Style;
use crate::output::table::{Align, Cell, Table, visible};
use crate::output::time::since;

/// Show queues with their jobs, worker pools and wait times
///
/// READY jobs are due and not taken by any pool. WAITING jobs are not due yet. IN-FLIGHT jobs are
/// with a pool; `ahead` in the JSON counts the ones waiting for a slot. On RabbitMQ, WAITING counts
/// the jobs in the tiers of the queue; a note shows the number of jobs in the delay levels, shared
/// by all queues. POOLS counts the pools that answered. RATE is the number of jobs completed in the
/// last minute. WAITED is the longest wait from due to start of the jobs started in that minute, or
/// `-` if none started. The JSON has the durations of the attempts of that minute: `p50_ms` and
/// `p95_ms`. An unknown figure is `?`, with the reason on standard error.
///
/// STATE is `consumed`, or the reason why no job of the queue runs: `unattended` (no pool),
/// `halted` (pools take no jobs), `stuck` (for more than a minute, attempts without a timeout or
/// beyond it have held every slot, and jobs wait), `withheld` (the same in one of several pools,
/// and the jobs that it has taken ahead wait), `paused`, or `missing` (no such queue). STATE adds
/// `waits late` or `waits stuck` while RabbitMQ jobs do not leave the tiers of the queue when due.
/// Exits with 4 if a named queue is missing.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Queues to show; all known queues by default
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// Show where the jobs of each queue are: how many are ready, waiting to run alone, waiting in
    /// each tier, leaving the delay levels, and failed
    #[arg(long)]
    parts: bool,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let overview = client.admin().overview(selection(arguments.queues)).await?;
    let is_missing = |queue: &QueueOverview| queue.state == State::Missing;
    let end = if overview.queues.iter().any(is_missing) { End::NotFound } else { End::Done };
    let now = SystemTime::now();
    let table = if arguments.parts {
        parts(&overview)
    } else {
        Table::new(&COLUMNS, overview.queues.iter().map(|queue| row(queue, now)))
    };
    checked(end, output.listing(&overview, &table, notes(&overview)))
}

/// These queues, or all.
pub(crate) fn selection(queues: Vec<String>) -> Queues {
    if queues.is_empty() { Queues::All } else { Queues::Named(queues) }
}

/// Why no job of a queue can start although some are due, if that is so.
pub(crate) fn hindrance(state: State, ready: &Figure<u64>) -> Figure<Option<&'static str>> {
    let why = match (state, ready) {
        (State::Stuck, _) => "jobs wait, and every slot is held",
        (State::Withheld, _) => "a pool whose slots are held has taken jobs ahead, and they wait",
        (State::Unattended | State::Halted, Figure::Known(1..)) => {
            "jobs wait, and no pool takes them"
        }
        (State::Unattended | State::Halted, Figure::Unknown(why)) => {
            return Figure::Unknown(why.clone());
        }
        (State::Unknown, _) => return Figure::unknown("the pools of the queue are unknown"),
        _ => return Figure::Known(None),
    };
    Figure::Known(Some(why))
}

/// Whether there is such a queue.
pub(crate) async fn exists(client: &Client, queue: &str) -> Result<bool, Problem> {
    let overview = client.admin().overview(Queues::one(queue)).await?;
    Ok(overview.queues.iter().any(|queue| !queue.parts.is_empty()))
}

/// The problem of a queue that does not exist.
pub(crate) fn missing(queue: &str) -> Problem {
    Problem::NotFound(format!(
        "queue `{queue}` does not exist; `jobq queues` lists the known queues"
    ))
}

/// The columns of the table of queues.
pub(crate) const COLUMNS: [(&str, Align); 9] = [
    ("QUEUE", Align::Left),
    ("READY", Align::Right),
    ("WAITING", Align::Right),
    ("IN-FLIGHT", Align::Right),
    ("FAILED", Align::Right),
    ("POOLS", Align::Right),
    ("RATE", Align::Right),
    ("WAITED", Align::Right),
    ("STATE", Align::Left),
];

/// Where the jobs of the queues are.
fn parts(overview: &Overview) -> Table {
    let columns = [("QUEUE", Align::Left), ("PLACE", Align::Left), ("JOBS", Align::Right)];
    let rows = overview.queues.iter().flat_map(|queue| {
        let name = &queue.queue;
        let parts = queue.parts.iter();
        parts.map(move |part| [Cell::from(name), Cell::from(part.place), Cell::from(&part.jobs)])
    });
    Table::new(&columns, rows)
}

/// The cells of a queue.
pub(crate) fn row(queue: &QueueOverview, now: SystemTime) -> [Cell; 9] {
    let rate = queue.completed.clone().map(|completed| format!("{completed}/min"));
    let waited = queue.waited.clone().map(|waited| waited.map_or("-".into(), text::duration));
    let failed = match queue.failed {
        Figure::Known(0) => Style::Plain,
        _ => Style::Notable,
    };
    [
        Cell::from(&queue.queue),
        Cell::from(&queue.ready),
        Cell::from(&queue.waiting),
        Cell::from(&queue.in_flight),
        Cell::new(queue.failed.to_string(), failed),
        Cell::from(&queue.pools),
        Cell::from(rate),
        Cell::from(waited),
        state_cell(queue, now),
    ]
}

/// The state of a queue, and whether its waiting jobs come through, if they do not.
fn state_cell(queue: &QueueOverview, now: SystemTime) -> Cell {
    let state = state(queue.state, &queue.paused, now);
    match trouble(&queue.waits) {
        Some(waits) => Cell::new(format!("{state}, waits {waits}"), Style::Bad),
        None => Cell::new(state, style(queue.state)),
    }
}

/// How jobs that wait come through, if they certainly do not do so in time.
fn trouble(waits: &Figure<Option<Passage>>) -> Option<Passage> {
    waits.known().copied().flatten().filter(|passage| *passage > Passage::Passing)
}

/// Notes below the table: pauses, how long attempts took, and the reasons of unknown figures.
pub(crate) fn details(queue: &QueueOverview, now: SystemTime) -> Vec<String> {
    let pause = (queue.state == State::Paused).then(|| state(queue.state, &queue.paused, now));
    let took = queue.durations.known().copied().flatten().map(durations);
    let unknown = reasons(std::slice::from_ref(queue), |_| true);
    pause.into_iter().chain(took).chain(unknown).collect()
}

fn durations(took: Percentiles) -> String {
    let (p50, p95) = (text::duration(took.p50), text::duration(took.p95));
    format!("attempts of the last minute: p50 {p50}, p95 {p95}")
}

/// The state of a queue, with who paused it, why and for how long.
fn state(state: State, paused: &Figure<Option<Pause>>, now: SystemTime) -> String {
    let (State::Paused, Figure::Known(Some(pause))) = (state, paused) else {
        return state.as_str().to_owned();
    };
    let time = pause.since.map(|time| format!(" {}", since(time, now)));
    let by = pause.by.as_ref().map(|by| format!(" by {by}"));
    let why = pause.why.as_ref().filter(|why| !why.is_empty()).map(|why| format!(": {why}"));
    [Some(state.as_str().to_owned()), time, by, why].into_iter().flatten().collect()
}

fn style(state: State) -> Style {
    match state {
        State::Consumed => Style::Good,
        State::Stuck | State::Withheld | State::Halted | State::Unattended | State::Missing => {
            Style::Bad
        }
        _ => Style::Notable,
    }
}

/// The reasons of unknown figures, and whether there may be other queues.
fn notes(overview: &Overview) -> Vec<String> {
    // These are in no column.
    let mut notes =
        reasons(&overview.queues, |figure| !["ahead", "p50_ms", "p95_ms"].contains(&figure));
    if let Figure::Known(jobs @ 1..) = overview.in_levels {
        notes.push(format!("jobs in the delay levels, of all queues: {jobs}"));
    }
    if let Some(waits) = trouble(&overview.levels) {
        notes.push(format!("jobs do not come out of the delay levels in time: waits {waits}"));
    }
    if let Figure::Unknown(why) = &overview.levels {
        notes.push(format!("? waits of the delay levels: {}", visible(why)));
    }
    if overview.queues.is_empty() {
        notes.push("no queue is known".into());
    }
    if !overview.complete {
        notes.push(format!(
            "these are the queues that are known from: {}. There may be others{}",
            overview.sources.join(", "),
            overview
                .incomplete
                .as_ref()
                .map(|why| format!(": {}", visible(why)))
                .unwrap_or_default()
        ));
    }
    notes
}

/// The reasons of unknown figures, one line for those that several queues have in common.
fn reasons(queues: &[QueueOverview], is_shown: impl Fn(&str) -> bool) -> Vec<String> {
    let mut by_reason = BTreeMap::<(&str, Vec<&str>), Vec<&str>>::new();
    for queue in queues {
        let mut of_queue = BTreeMap::<&str, Vec<&str>>::new();
        for (figure, why) in queue.unknown().into_iter().filter(|(figure, _)| is_shown(figure)) {
            of_queue.entry(why).or_default().push(column(figure));
        }
        for (why, mut figures) in of_queue {
            // A figure without a column comes first, as `None`.
            figures.sort_by_key(|figure| COLUMNS.iter().position(|(title, _)| title == figure));
            by_reason.entry((why, figures)).or_default().push(&queue.queue);
        }
    }
    let line = |((why, figures), queues): ((&str, Vec<&str>), Vec<&str>)| {
        format!("? {} of {}: {}", figures.join(", "), queues.join(", "), visible(why))
    };
    by_reason.into_iter().map(line).collect()
}

/// The title of the column of a figure.
fn column(figure: &str) -> &str {
    match figure {
        "ready" => "READY",
        "waiting" => "WAITING",
        "in_flight" => "IN-FLIGHT",
        "failed" => "FAILED",
        "pools" => "POOLS",
        "completed" => "RATE",
        "waited_ms" => "WAITED",
        "ahead" => "taken ahead",
        "p50_ms" => "p50",
        "p95_ms" => "p95",
        "paused" => "STATE",
        "unaccounted" => "consumers without a pool",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_state_of_a_paused_queue_says_who_why_and_for_how_long() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let pause = |by: &str, why: &str| Pause::new(SystemTime::UNIX_EPOCH, by, why);
        for (queue, paused, expected) in [
            (State::Consumed, Figure::Known(None), "consumed"),
            (State::Stuck, Figure::Known(None), "stuck"),
            (State::Unattended, Figure::unknown("lost"), "unattended"),
            (
                State::Paused,
                Figure::Known(Some(pause("ann", "deploy"))),
                "paused 16m by ann: deploy",
            ),
            (State::Paused, Figure::Known(Some(pause("ann", ""))), "paused 16m by ann"),
            (State::Paused, Figure::Known(Some(Pause::default())), "paused"),
        ] {
            assert_eq!(state(queue, &paused, now), expected);
        }
    }
}
