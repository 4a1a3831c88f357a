//! The state of a queue. Pure.

use std::time::Duration;

use serde::Serialize;

use crate::engine::{Activity, Figure, Pause, PoolQueue, RunningJob};

/// An attempt that runs longer, and that no timeout is to end, holds its slot.
const LONG: Duration = Duration::from_secs(60);

/// The state of a queue, from its pause, its pools and its ready jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// At least one pool takes jobs.
    Consumed,
    /// Pools take jobs, more jobs are ready or taken ahead, and nothing moves: in the last minute no
    /// job started and no attempt ended, and every slot is lost or holds an attempt that has run
    /// for more than a minute, without a timeout or beyond it. A queue of jobs that take long by
    /// their nature looks the same while all slots are taken, unless they have timeouts.
    Stuck,
    /// Pools take jobs, and one of them holds jobs back: it has taken them ahead and nothing moves in
    /// it, as in a queue that is stuck, while other pools may be idle. These jobs run when one of its
    /// attempts or its process ends.
    Withheld,
    /// The queue is paused.
    Paused,
    /// Pools work on the queue, and none of them takes jobs.
    Halted,
    /// No pool works on the queue.
    Unattended,
    /// There is no such queue.
    Missing,
    /// It has consumers that did not answer, or its pools are unknown.
    Unknown,
}

impl State {
    /// Its name, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Consumed => "consumed",
            Self::Stuck => "stuck",
            Self::Withheld => "withheld",
            Self::Paused => "paused",
            Self::Halted => "halted",
            Self::Unattended => "unattended",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// The state of a queue with these ready jobs, if it exists, and these pools.
pub(super) fn state(
    paused: &Figure<Option<Pause>>,
    unaccounted: &Figure<u32>,
    ready: Option<&Figure<u64>>,
    pools: &[&PoolQueue],
) -> State {
    match (paused, unaccounted) {
        (Figure::Known(Some(_)), _) => State::Paused,
        _ if pools.iter().any(|pool| takes(pool)) => {
            let some_wait = ready.is_some_and(|ready| *ready > 0)
                || pools.iter().any(|pool| has_taken_ahead(pool));
            // A consumer that did not answer may make progress.
            let nothing_moves = *unaccounted == 0 && pools.iter().all(|pool| is_stuck(pool));
            if some_wait && nothing_moves {
                State::Stuck
            } else if pools.iter().any(|pool| withholds(pool)) {
                State::Withheld
            } else {
                State::Consumed
            }
        }
        (_, Figure::Unknown(_) | Figure::Known(1..)) => State::Unknown,
        _ if pools.is_empty() && ready.is_none() => State::Missing,
        _ if pools.is_empty() => State::Unattended,
        _ => State::Halted,
    }
}

fn takes(pool: &PoolQueue) -> bool {
    matches!(pool.state, Activity::Consuming | Activity::Resting) && pool.lost_slots < pool.slots
}

fn has_taken_ahead(pool: &PoolQueue) -> bool {
    // What an earlier version has in flight may be about to be settled.
    let not_running = || pool.in_flight.saturating_sub(as_u32(pool.running.len()));
    pool.ahead.unwrap_or_else(not_running) > 0
}

/// Whether a pool would take jobs, and has others that wait for one of its slots.
fn withholds(pool: &PoolQueue) -> bool {
    takes(pool) && has_taken_ahead(pool) && is_stuck(pool)
}

fn as_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether a pool takes no jobs, or would and has had no free slot for a minute.
fn is_stuck(pool: &PoolQueue) -> bool {
    let minute = &pool.minute;
    let has_ended =
        [minute.completed, minute.retried, minute.failed].iter().any(|ended| *ended > 0);
    if has_ended || minute.waited.is_some() {
        return false;
    }
    let held = pool.running.iter().filter(|job| holds(job)).count();
    let held = as_u32(held).saturating_add(pool.lost_slots);
    // A solo run, for which the others rest, has a timeout always.
    !takes(pool) || (pool.state == Activity::Consuming && held >= pool.slots)
}

/// Whether an attempt may hold its slot for any time.
fn holds(job: &RunningJob) -> bool {
    job.running > LONG && (job.timeout.is_none() || job.is_overdue())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    #[test]
    fn the_state_of_a_queue_follows_from_its_pause_and_its_pools() {
        let pool = |state, lost_slots| PoolQueue { state, lost_slots, ..PoolQueue::new("q", 2) };
        let (taking, still) = (pool(Activity::Consuming, 0), pool(Activity::Quiet, 0));
        let (lost, resting) = (pool(Activity::Consuming, 2), pool(Activity::Resting, 0));
        let none = Figure::Known(None);
        let paused = Figure::Known(Some(Pause::default()));
        let unread = Figure::unknown("no connection");
        for (paused, unaccounted, pools, expected) in [
            (&none, Figure::Known(0), vec![&taking], State::Consumed),
            (&none, Figure::Known(3), vec![&still, &taking], State::Consumed),
            (&none, Figure::Known(0), vec![&resting], State::Consumed),
            (&none, Figure::Known(0), vec![&still], State::Halted),
            (&none, Figure::Known(0), vec![&lost], State::Halted),
            (&none, Figure::Known(0), vec![], State::Unattended),
            (&none, Figure::Known(1), vec![], State::Unknown),
            (&none, Figure::unknown("no leader"), vec![&still], State::Unknown),
            (&paused, Figure::Known(0), vec![&taking], State::Paused),
            (&unread, Figure::Known(0), vec![&taking], State::Consumed),
        ] {
            let found = state(paused, &unaccounted, Some(&Figure::Known(7)), &pools);
            assert_eq!(found, expected, "{paused:?} {unaccounted:?}");
            let missing = if expected == State::Unattended { State::Missing } else { expected };
            assert_eq!(state(paused, &unaccounted, None, &pools), missing, "without the queue");
        }
    }

    /// A pool of two slots that runs attempts for so many seconds, with a timeout of so many.
    fn pool(lost_slots: u32, running: &[(u64, Option<u64>)]) -> PoolQueue {
        let attempt = |(seconds, timeout): &(u64, Option<u64>)| RunningJob {
            timeout: timeout.map(Duration::from_secs),
            ..RunningJob::new(JobId::new(), "job", 1, Duration::from_secs(*seconds))
        };
        let running = running.iter().map(attempt).collect();
        PoolQueue { lost_slots, running, ..PoolQueue::new("q", 2) }
    }

    #[test]
    fn a_queue_is_stuck_if_jobs_are_ready_and_every_slot_is_held() {
        let stuck = || pool(0, &[(61, None), (7_200, None)]);
        let with = |change: fn(&mut PoolQueue)| {
            let mut pool = stuck();
            change(&mut pool);
            pool
        };
        let (yes, no, withheld) = (State::Stuck, State::Consumed, State::Withheld);
        let ahead = || with(|p| p.ahead = Some(1));
        let idle = || pool(0, &[]);
        let table = [
            (Figure::Known(1), Figure::Known(0), vec![stuck()], yes),
            (Figure::Known(0), Figure::Known(0), vec![stuck()], no),
            (Figure::unknown("no leader"), Figure::Known(0), vec![stuck()], no),
            (Figure::Known(0), Figure::Known(0), vec![with(|p| p.in_flight = 2)], no),
            (Figure::Known(0), Figure::Known(0), vec![ahead()], yes),
            // Of an earlier version.
            (
                Figure::Known(0),
                Figure::Known(0),
                vec![with(|p| (p.in_flight, p.ahead) = (2, None))],
                no,
            ),
            (
                Figure::Known(0),
                Figure::Known(0),
                vec![with(|p| (p.in_flight, p.ahead) = (3, None))],
                yes,
            ),
            // Jobs wait in one pool, beside others that could run them.
            (Figure::Known(0), Figure::Known(0), vec![ahead(), idle()], withheld),
            (Figure::Known(5), Figure::Known(0), vec![idle(), ahead()], withheld),
            (Figure::Known(0), Figure::Known(1), vec![ahead()], withheld),
            (Figure::Known(0), Figure::Known(0), vec![stuck(), idle()], no),
            (
                Figure::Known(0),
                Figure::Known(0),
                vec![with(|p| (p.ahead, p.minute.completed) = (Some(1), 1)), idle()],
                no,
            ),
            (
                Figure::Known(0),
                Figure::Known(0),
                vec![with(|p| (p.ahead, p.state) = (Some(1), Activity::Interrupted)), idle()],
                no,
            ),
            // Others may make progress.
            (Figure::Known(1), Figure::Known(1), vec![stuck()], no),
            (Figure::Known(1), Figure::unknown("no leader"), vec![stuck()], no),
            (Figure::Known(1), Figure::Known(0), vec![stuck(), pool(0, &[(61, None)])], no),
            (Figure::Known(1), Figure::Known(0), vec![stuck(), stuck()], yes),
            // A free slot; a young attempt; one that its timeout ends, and one that it did not end.
            (Figure::Known(1), Figure::Known(0), vec![pool(0, &[(61, None)])], no),
            (Figure::Known(1), Figure::Known(0), vec![pool(0, &[(61, None), (60, None)])], no),
            (Figure::Known(1), Figure::Known(0), vec![pool(0, &[(61, None), (61, Some(600))])], no),
            (
                Figure::Known(1),
                Figure::Known(0),
                vec![pool(0, &[(61, None), (601, Some(600))])],
                yes,
            ),
            // Lost slots.
            (Figure::Known(1), Figure::Known(0), vec![pool(1, &[(61, None)])], yes),
            (Figure::Known(1), Figure::Known(0), vec![pool(2, &[]), stuck()], yes),
            (Figure::Known(1), Figure::Known(0), vec![pool(1, &[])], no),
            // What started or ended in the last minute.
            (Figure::Known(1), Figure::Known(0), vec![with(|p| p.minute.completed = 1)], no),
            (Figure::Known(1), Figure::Known(0), vec![with(|p| p.minute.failed = 1)], no),
            (
                Figure::Known(1),
                Figure::Known(0),
                vec![with(|p| p.minute.waited = Some(Duration::ZERO))],
                no,
            ),
            // A pool that takes nothing, and one that rests.
            (
                Figure::Known(1),
                Figure::Known(0),
                vec![with(|p| p.state = Activity::Quiet), stuck()],
                yes,
            ),
            (Figure::Known(1), Figure::Known(0), vec![with(|p| p.state = Activity::Resting)], no),
        ];
        for (ready, unaccounted, pools, expected) in table {
            let pools: Vec<_> = pools.iter().collect();
            let found = state(&Figure::Known(None), &unaccounted, Some(&ready), &pools);
            assert_eq!(found, expected, "{ready:?} {unaccounted:?} {pools:#?}");
        }
    }
}
