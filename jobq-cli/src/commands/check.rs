use std::time::Duration;

use clap::Args;
use jobq::admin::{Passage, PoolReport, QueueOverview, Read, State};
use serde::Serialize;

use super::queues::selection;
use crate::end::{End, Ended, checked};
use crate::options::{Options, period};
use crate::output::Output;
use crate::output::time::{millis, short};

/// The figure of queues whose waiting jobs do not come through.
const STUCK_WAITS: &str = "stuck_waits";
/// The delay levels, among the queues.
const LEVELS: &str = "@levels";

/// Checks the queues against limits, for monitors and probes
///
/// Exits with 1 if a queue exceeds a limit, if pools report that jobs which wait in the broker do not
/// come through (`stuck_waits`; the queue `@levels` stands for the delay levels), and also if a figure that is needed is unknown, there is
/// no queue, or one that is named does not exist.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The queues; all that are known without any
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    limits: Limits,
}

/// The limits of each queue.
#[derive(Debug, Clone, Default, Args)]
#[group(required = true, multiple = true)]
struct Limits {
    /// At least this many pools work on each queue
    #[arg(long, value_name = "NUMBER")]
    min_pools: Option<u32>,
    /// At most this many jobs have failed
    #[arg(long, value_name = "NUMBER")]
    failed_max: Option<u64>,
    /// At most this many jobs are due and not taken
    #[arg(long, value_name = "NUMBER")]
    ready_max: Option<u64>,
    /// No job that started in the last minute waited longer from due to start. If jobs wait and none
    /// can start, this is unknown
    #[arg(long, value_name = "DURATION", value_parser = period)]
    waited_max: Option<Duration>,
}

/// The figures of a queue that are checked.
#[derive(Debug, Clone)]
struct Figures {
    pools: Read<u32>,
    /// Consumers that belong to no pool that answered.
    unaccounted: Read<u32>,
    ready: Read<u64>,
    failed: Read<u64>,
    waited: Read<Option<Duration>>,
    state: State,
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
    queues: Vec<&'a str>,
    breaches: &'a [Breach],
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let overview = client.admin().overview(selection(arguments.queues)).await?;
    let queues: Vec<_> = overview.queues.iter().map(|queue| queue.queue.as_str()).collect();
    let breaches: Vec<_> = overview
        .queues
        .iter()
        .flat_map(|queue| breaches(&queue.queue, &Figures::of(queue), &arguments.limits))
        .chain(stuck(&queues, overview.reports.known().map_or(&[], Vec::as_slice)))
        .collect();
    let end = end(queues.len(), &breaches);
    if queues.is_empty() && !output.is_json() {
        output.error("no queue is known, so nothing was checked: name the queues");
    }
    let printed = if output.is_json() {
        output.document(Document { ok: end == End::Done, queues, breaches: &breaches })
    } else if end == End::Done {
        output.line(&format!("ok: {}", queues.join(", ")))
    } else {
        breaches.iter().try_for_each(|breach| output.line(&sentence(breach)))
    };
    checked(end, printed)
}

impl Figures {
    /// Those of a queue that does not exist are unknown: a limit of a wrong name checks nothing.
    fn of(queue: &QueueOverview) -> Self {
        if queue.state == State::Missing {
            return Self {
                pools: missing(),
                unaccounted: missing(),
                ready: missing(),
                failed: missing(),
                waited: missing(),
                state: queue.state,
            };
        }
        Self {
            pools: queue.pools.clone(),
            unaccounted: queue.unaccounted.clone(),
            ready: queue.ready.clone(),
            failed: queue.failed.clone(),
            waited: queue.waited.clone(),
            state: queue.state,
        }
    }

    /// The longest wait, in milliseconds; unknown while jobs wait and none can start, since those that
    /// started say nothing about them.
    fn waited(&self) -> Read<u64> {
        match (self.state, &self.ready) {
            (State::Stuck, _) => Read::unknown("jobs wait, and every slot is held"),
            (State::Withheld, _) => {
                Read::unknown("a pool whose slots are held has taken jobs ahead, and they wait")
            }
            (State::Unattended | State::Halted, Read::Known(1..)) => {
                Read::unknown("jobs wait, and no pool takes them")
            }
            _ => self.waited.clone().map(|waited| waited.map_or(0, millis)),
        }
    }

    /// The number of pools; unknown if there are fewer than wanted, and consumers that may belong
    /// to others.
    fn pools(&self, wanted: u32) -> Read<u64> {
        let pools = self.pools.clone().map(u64::from);
        match (&self.pools, &self.unaccounted) {
            (Read::Known(pools), Read::Known(1..)) if *pools < wanted => {
                Read::unknown("there are consumers that belong to no pool that answered")
            }
            (Read::Known(pools), Read::Unknown(why)) if *pools < wanted => {
                Read::Unknown(why.clone())
            }
            _ => pools,
        }
    }
}

fn missing<T>() -> Read<T> {
    Read::unknown("there is no such queue")
}

/// The limits that a queue exceeds.
fn breaches(queue: &str, figures: &Figures, limits: &Limits) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut check = |figure, limit: Option<u64>, found: Read<u64>, least: bool| {
        let Some(limit) = limit else { return };
        let exceeds = |found: &u64| if least { *found < limit } else { *found > limit };
        if found.known().is_none_or(exceeds) {
            let (found, unknown) = match found {
                Read::Known(found) => (Some(found), None),
                Read::Unknown(why) => (None, Some(why.into_owned())),
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

fn end(queues: usize, breaches: &[Breach]) -> End {
    if queues > 0 && breaches.is_empty() { End::Done } else { End::No }
}

/// A breach for people.
fn sentence(breach: &Breach) -> String {
    let Breach { queue, figure, limit, found, unknown } = breach;
    if *figure == STUCK_WAITS {
        let pools = found.unwrap_or_default();
        return format!(
            "{queue}: jobs that wait do not come through, as {pools} of its pools report; restart the \
             broker's node that leads its queues"
        );
    }
    let shown = |number: u64| match *figure {
        "waited_ms" => short(Duration::from_millis(number)),
        _ => number.to_string(),
    };
    let (name, bound) = match *figure {
        "pools" => ("pools", "at least"),
        "waited_ms" => ("waited", "at most"),
        other => (other, "at most"),
    };
    let found = match found {
        Some(found) => shown(*found),
        None => format!("unknown ({})", unknown.as_deref().unwrap_or_default()),
    };
    format!("{queue}: {name}: expected {bound} {}, found {found}", shown(*limit))
}

#[cfg(test)]
mod tests {
    use jobq::admin::{PoolId, PoolQueue};

    use super::*;

    fn figures() -> Figures {
        Figures {
            pools: Read::Known(1),
            unaccounted: Read::Known(0),
            ready: Read::Known(5),
            failed: Read::Known(2),
            waited: Read::Known(Some(Duration::from_secs(20))),
            state: State::Consumed,
        }
    }

    #[test]
    fn waits_that_do_not_end_are_breaches_of_their_queues_alone() {
        let report = |levels: Option<Passage>, waits: Option<Passage>| {
            let mut mail = PoolQueue::new("mail", 1);
            mail.waits = waits;
            let queues = vec![mail, PoolQueue::new("video", 1)];
            let started = std::time::SystemTime::UNIX_EPOCH;
            let mut report = PoolReport::new(PoolId::new(), String::new(), started, queues);
            report.levels = levels;
            report
        };
        let (passing, stuck_now) = (Some(Passage::Passing), Some(Passage::Stuck));
        let table = [
            (vec![report(None, None), report(passing, passing)], vec![]),
            (vec![report(Some(Passage::Unknown), Some(Passage::Late))], vec![]),
            (vec![report(passing, stuck_now), report(None, stuck_now)], vec![("mail", 2)]),
            (vec![report(stuck_now, passing), report(passing, passing)], vec![("@levels", 1)]),
        ];
        for (reports, expected) in table {
            let found = stuck(&["mail", "video"], &reports);
            let found: Vec<_> = found.iter().map(|b| (&*b.queue, b.found.unwrap())).collect();
            assert_eq!(found, expected, "{reports:?}");
        }
        let said = sentence(&stuck(&["mail"], &[report(None, stuck_now)])[0]);
        assert!(said.starts_with("mail: jobs that wait do not come through, as 1 of"), "{said}");
        // Only what was asked for.
        assert!(stuck(&["video"], &[report(None, stuck_now)]).is_empty());
    }

    #[test]
    fn a_limit_that_cannot_be_checked_is_a_breach() {
        let none = Limits::default();
        let pools = |number| Limits { min_pools: Some(number), ..none.clone() };
        let failed = |number| Limits { failed_max: Some(number), ..none.clone() };
        let waited =
            |seconds| Limits { waited_max: Some(Duration::from_secs(seconds)), ..none.clone() };
        let unread = || Read::unknown("no leader");
        let with = |change: fn(&mut Figures)| {
            let mut figures = figures();
            change(&mut figures);
            figures
        };
        let table: [(Figures, Limits, Option<&str>); 18] = [
            (figures(), pools(1), None),
            (figures(), pools(2), Some("mail: pools: expected at least 2, found 1")),
            (with(|f| f.unaccounted = Read::Known(3)), pools(1), None),
            (
                with(|f| f.unaccounted = Read::Known(3)),
                pools(2),
                Some(
                    "mail: pools: expected at least 2, found unknown (there are consumers that \
                     belong to no pool that answered)",
                ),
            ),
            (figures(), failed(2), None),
            (figures(), failed(1), Some("mail: failed: expected at most 1, found 2")),
            (
                Figures { failed: unread(), ..figures() },
                failed(9),
                Some("mail: failed: expected at most 9, found unknown (no leader)"),
            ),
            (Figures { ready: unread(), ..figures() }, failed(9), None),
            (figures(), Limits { ready_max: Some(5), ..none.clone() }, None),
            (figures(), waited(20), None),
            (figures(), waited(19), Some("mail: waited: expected at most 19s, found 20s")),
            (with(|f| f.waited = Read::Known(None)), waited(1), None),
            (
                with(|f| f.state = State::Stuck),
                waited(30),
                Some(
                    "mail: waited: expected at most 30s, found unknown (jobs wait, and every slot \
                     is held)",
                ),
            ),
            (
                with(|f| f.state = State::Unattended),
                waited(30),
                Some(
                    "mail: waited: expected at most 30s, found unknown (jobs wait, and no pool \
                     takes them)",
                ),
            ),
            (
                with(|f| (f.state, f.ready) = (State::Withheld, Read::Known(0))),
                waited(30),
                Some(
                    "mail: waited: expected at most 30s, found unknown (a pool whose slots are \
                     held has taken jobs ahead, and they wait)",
                ),
            ),
            (with(|f| f.state = State::Withheld), failed(2), None),
            (with(|f| (f.state, f.ready) = (State::Halted, Read::Known(0))), waited(30), None),
            (with(|f| f.state = State::Paused), waited(30), None),
        ];
        for (figures, limits, expected) in table {
            let found = breaches("mail", &figures, &limits);
            let sentences: Vec<_> = found.iter().map(sentence).collect();
            assert_eq!(sentences, expected.into_iter().collect::<Vec<_>>(), "{limits:?}");
            let expected = if expected.is_none() { End::Done } else { End::No };
            assert_eq!(end(1, &found), expected);
        }
        assert_eq!(end(0, &[]), End::No);
    }
}
