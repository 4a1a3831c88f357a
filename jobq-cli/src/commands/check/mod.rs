mod queues;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jobq::admin::text;
use jobq::admin::{Admin, Figure, Overview, Passage, PoolReport, QueueOverview, Queues, State};
use serde::Serialize;
use tokio::time::sleep;

use super::LEVELS;
use super::queues::{hindrance, selection};
use crate::end::{End, Ended, Problem, checked};
use crate::options::{Options, period};
use crate::output::Output;
use crate::output::time::millis;

/// The figure of queues whose waiting jobs do not come through.
const STUCK_WAITS: &str = "stuck_waits";
/// The longest time between two looks at jobs that stand still.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// Check queues against limits, for monitors and probes
///
/// Exits with 1 if a queue exceeds a limit, or if pools report that waiting jobs are stuck in the
/// broker (`stuck_waits`; the queue `@levels` stands for the delay levels). Also exits with 1 if a
/// required figure is unknown, there is no queue, a named queue does not exist, or the management
/// API does not list the queues. On RabbitMQ, pass names, files or `--management`; otherwise the
/// command exits with 2, since AMQP cannot list queues.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Queues to check; by default, all queues in the management API or the SQLite file
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// File with additional queues: one name per line, or the declarations of a program as JSON, as
    /// for `jobq topology`. Can be repeated
    #[arg(long, value_name = "FILE")]
    queues_from: Vec<PathBuf>,
    #[command(flatten)]
    limits: Limits,
}

/// The limits of each queue.
#[derive(Debug, Clone, Default, Args)]
#[group(required = true, multiple = true)]
struct Limits {
    /// Minimum number of pools for each queue
    #[arg(long, value_name = "NUMBER")]
    min_pools: Option<u32>,
    /// Maximum number of failed jobs
    #[arg(long, value_name = "NUMBER")]
    failed_max: Option<u64>,
    /// Maximum number of jobs due and not taken
    #[arg(long, value_name = "NUMBER")]
    ready_max: Option<u64>,
    /// Maximum wait from due to start of the jobs started in the last minute. If jobs wait and none
    /// started in that minute, the command looks again after this time, or after five seconds if
    /// that is less. If still none started, or none can start, the wait is unknown
    #[arg(long, value_name = "DURATION", value_parser = period)]
    waited_max: Option<Duration>,
}

/// The figures of a queue that are checked.
#[derive(Debug, Clone)]
struct Figures {
    pools: Figure<u32>,
    /// Consumers that belong to no pool that answered.
    unaccounted: Figure<u32>,
    ready: Figure<u64>,
    failed: Figure<u64>,
    waited: Figure<Option<Duration>>,
    state: State,
    /// Whether jobs waited and none started at an earlier look, too.
    stood: bool,
}

/// A limit that a queue exceeds, or that cannot be checked.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Breach {
    queue: String,
    figure: &'static str,
    /// The limit, and the figure if it is known: numbers, or milliseconds.
    limit: u64,
    found: Option<u64>,
    /// The reason of an unknown figure.
    unknown: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    queues: &'a [&'a str],
    breaches: &'a [Breach],
    /// Why there may be other queues, which were not checked.
    incomplete: Option<&'a str>,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let Arguments { queues, queues_from, limits } = arguments;
    let named = queues::named(queues, &queues_from, options)?;
    let client = options.client().await?;
    let (overview, stood) = look(&client.admin(), selection(named), limits.waited_max).await?;
    let queues: Vec<_> = overview.queues.iter().map(|queue| queue.queue.as_str()).collect();
    let breaches_of = |queue: &QueueOverview| {
        let figures = Figures { stood: stood.contains(&queue.queue), ..Figures::of(queue) };
        breaches(&queue.queue, &figures, &limits)
    };
    let stuck = stuck(&queues, overview.reports.known().map_or(&[], Vec::as_slice));
    let breaches: Vec<_> = overview.queues.iter().flat_map(breaches_of).chain(stuck).collect();
    let incomplete = overview.incomplete.as_deref();
    let end = end(queues.len(), &breaches, incomplete);
    if queues.is_empty() && !output.is_json() {
        output.error("no queues are known, so nothing was checked: name the queues");
    }
    let text = || {
        if end == End::Done {
            return format!("ok: {}", queues.join(", "));
        }
        let unlisted = incomplete.map(|why| format!("there may be other queues: {why}"));
        sentences(&breaches).into_iter().chain(unlisted).collect::<Vec<_>>().join("\n")
    };
    let (ok, queues, breaches) = (end == End::Done, &queues, &breaches);
    checked(end, output.answer(Document { ok, queues, breaches, incomplete }, text))
}

/// The figures, and the queues whose jobs stood still at a look before. It looks twice if there are
/// such queues: a job may just have become due.
async fn look(
    admin: &Admin,
    which: Queues,
    waited_max: Option<Duration>,
) -> Result<(Overview, BTreeSet<String>), Problem> {
    let first = admin.overview(which.clone()).await?;
    let Some(limit) = waited_max else { return Ok((first, BTreeSet::new())) };
    let stand = first.queues.iter().filter(|queue| Figures::of(queue).stands());
    let stood: BTreeSet<_> = stand.map(|queue| queue.queue.clone()).collect();
    if stood.is_empty() {
        return Ok((first, stood));
    }
    sleep(limit.min(BETWEEN_LOOKS)).await;
    Ok((admin.overview(which).await?, stood))
}

impl Figures {
    /// Those of a queue that does not exist are unknown: a limit of a wrong name checks nothing.
    fn of(queue: &QueueOverview) -> Self {
        Self {
            pools: existing(queue, &queue.pools),
            unaccounted: existing(queue, &queue.unaccounted),
            ready: existing(queue, &queue.ready),
            failed: existing(queue, &queue.failed),
            waited: existing(queue, &queue.waited),
            state: queue.state,
            stood: false,
        }
    }

    /// Whether jobs wait and none started in the last minute.
    fn stands(&self) -> bool {
        self.ready > 0 && self.waited == None
    }

    /// The longest wait, in milliseconds; unknown while jobs wait and none can start, since those that
    /// started say nothing about them.
    fn waited(&self) -> Figure<u64> {
        match (hindrance(self.state, &self.ready), &self.ready) {
            (Figure::Known(Some(why)), _) => Figure::unknown(why),
            _ if self.stands() && self.stood => {
                let paused = if self.state == State::Paused { "; the queue is paused" } else { "" };
                Figure::unknown(format!("jobs wait, and none started in the last minute{paused}"))
            }
            (_, Figure::Unknown(why)) if self.waited == None => Figure::Unknown(why.clone()),
            _ => self.waited.clone().map(|waited| waited.map_or(0, millis)),
        }
    }

    /// The number of pools; unknown if there are fewer than wanted, and consumers that may belong
    /// to others.
    fn pools(&self, wanted: u32) -> Figure<u64> {
        let pools = self.pools.clone().map(u64::from);
        match (&self.pools, &self.unaccounted) {
            (Figure::Known(pools), Figure::Known(1..)) if *pools < wanted => {
                Figure::unknown("some consumers belong to no pool that answered")
            }
            (Figure::Known(pools), Figure::Unknown(why)) if *pools < wanted => {
                Figure::Unknown(why.clone())
            }
            _ => pools,
        }
    }
}

/// A figure of a queue, which is unknown if the queue does not exist.
fn existing<T: Clone>(queue: &QueueOverview, figure: &Figure<T>) -> Figure<T> {
    match queue.state {
        State::Missing => Figure::unknown("there is no such queue"),
        _ => figure.clone(),
    }
}

/// The limits that a queue exceeds.
fn breaches(queue: &str, figures: &Figures, limits: &Limits) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut check = |figure, limit: Option<u64>, found: Figure<u64>, least: bool| {
        let Some(limit) = limit else { return };
        let exceeds = |found: &u64| if least { *found < limit } else { *found > limit };
        if found.known().is_none_or(exceeds) {
            let (found, unknown) = match found {
                Figure::Known(found) => (Some(found), None),
                Figure::Unknown(why) => (None, Some(why.into_owned())),
            };
            breaches.push(Breach { queue: queue.to_owned(), figure, limit, found, unknown });
        }
    };
    let min_pools = limits.min_pools;
    check("pools", min_pools.map(u64::from), figures.pools(min_pools.unwrap_or(0)), true);
    check("failed", limits.failed_max, figures.failed.clone(), false);
    check("ready", limits.ready_max, figures.ready.clone(), false);
    check("waited_ms", limits.waited_max.map(millis), figures.waited(), false);
    breaches
}

/// The queues whose waiting jobs do not come through, as pools report it. The delay levels belong to
/// all queues.
fn stuck(queues: &[&str], reports: &[PoolReport]) -> Vec<Breach> {
    let count = |of_report: &dyn Fn(&PoolReport) -> Option<Passage>| {
        reports.iter().filter(|report| of_report(report) == Some(Passage::Stuck)).count()
    };
    let breach = |queue: &str, pools: usize| {
        let found = Some(u64::try_from(pools).unwrap_or(u64::MAX));
        let (queue, figure) = (queue.to_owned(), STUCK_WAITS);
        (pools > 0).then_some(Breach { queue, figure, limit: 0, found, unknown: None })
    };
    let levels = breach(LEVELS, count(&|report| report.levels));
    let of_queue = |queue: &&str| breach(queue, count(&|report| report.queue(queue)?.waits));
    levels.into_iter().chain(queues.iter().filter_map(of_queue)).collect()
}

fn end(queues: usize, breaches: &[Breach], incomplete: Option<&str>) -> End {
    let is_sound = queues > 0 && breaches.is_empty() && incomplete.is_none();
    if is_sound { End::Done } else { End::No }
}

/// The breaches for people: one line for all figures that are unknown for one reason.
fn sentences(breaches: &[Breach]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, breach) in breaches.iter().enumerate() {
        let alike = |other: &&Breach| other.unknown.is_some() && other.unknown == breach.unknown;
        let others: Vec<_> = breaches.iter().filter(alike).collect();
        if others.len() < 2 {
            lines.push(sentence(breach));
        } else if !breaches[..index].iter().any(|earlier| alike(&earlier)) {
            lines.push(common(&others));
        }
    }
    lines
}

/// Breaches of one reason.
fn common(breaches: &[&Breach]) -> String {
    let list = |name: fn(&Breach) -> &str| {
        let names: BTreeSet<_> = breaches.iter().copied().map(name).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let why = breaches.first().and_then(|breach| breach.unknown.as_deref()).unwrap_or_default();
    let (queues, figures) = (list(|breach| &breach.queue), list(|breach| name_of(breach.figure)));
    format!("{queues}: {figures}: unknown ({why})")
}

/// The name of a figure for people.
fn name_of(figure: &str) -> &str {
    if figure == "waited_ms" { "waited" } else { figure }
}

/// A breach for people.
fn sentence(breach: &Breach) -> String {
    let Breach { queue, figure, limit, found, unknown } = breach;
    if *figure == STUCK_WAITS {
        let pools = found.unwrap_or_default();
        return format!(
            "{queue}: waiting jobs are stuck, as {pools} of its pools report; restart the broker's \
             node that leads its queues"
        );
    }
    let shown = |number: u64| match *figure {
        "waited_ms" => text::duration(Duration::from_millis(number)),
        _ => number.to_string(),
    };
    let bound = if *figure == "pools" { "at least" } else { "at most" };
    let name = name_of(figure);
    let found = match found {
        Some(found) => shown(*found),
        None => format!("unknown ({})", unknown.as_deref().unwrap_or_default()),
    };
    format!("{queue}: {name}: expected {bound} {}, found {found}", shown(*limit))
}

#[cfg(test)]
mod tests;
