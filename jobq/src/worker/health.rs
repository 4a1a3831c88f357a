//! The health of a pool: the state of each of its queues.

use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::watch;

use crate::engine::{Consumer, Interruption, Pause};
use crate::error::{Error, Result};
use crate::job::millis;
use crate::metrics::Switch;
use crate::relay::RelayHealth;

/// The current state of a pool, from [`RunningPool::health`](crate::RunningPool::health).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PoolHealth {
    /// The queues of the pool, sorted by name.
    pub queues: Vec<QueueHealth>,
    /// Exchanges and queues that this pool needs and that were deleted on the broker, by name. Jobs
    /// may wait for them, retries above all, although the queues are consumed. `None` if nothing is
    /// missing. A pool checks every 30 to 50 seconds and declares them again, so the error stays
    /// only if the pool's user may not declare them, until someone else does. Always `None` on
    /// SQLite, where nothing can be deleted alone.
    pub missing: Option<Error>,
    /// The error of the [source of credentials](crate::ClientBuilder::credentials), when those in
    /// use could not be renewed, with the time for which they are still valid. jobq asks the source
    /// again until it answers. `None` otherwise.
    pub credentials: Option<Error>,
    /// The [relays](crate::WorkerPool::relay) of the pool.
    pub relays: Vec<RelayHealth>,
}

impl PoolHealth {
    /// Whether the pool takes jobs from all of its queues, but for those that an operator paused,
    /// and while a solo run keeps it from it.
    #[must_use]
    pub fn is_consuming(&self) -> bool {
        self.queues.iter().all(|queue| queue.state.is_healthy())
    }
}

/// The state of one queue of a pool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct QueueHealth {
    /// The name of the queue, without a namespace.
    pub queue: String,
    /// Whether jobs are taken from it.
    pub state: QueueState,
    /// The number of lost slots (of its `concurrency`): slots of functions that did not end within
    /// a second of their timeout. Nothing can stop such a function: a blocking one, or an
    /// `async fn` that loops without an `.await`. Its attempt has failed, and it keeps its slot
    /// until it ends. A queue that has lost all slots is
    /// [interrupted](QueueState::Interrupted) until one of them ends or the process is restarted,
    /// and leaves its jobs to other pools. Each lost slot is logged.
    pub lost_slots: usize,
}

/// Whether a pool takes jobs from a queue.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueState {
    /// Jobs are taken, as far as is known: a silently lost connection is noticed when its
    /// heartbeats are missing.
    Consuming,
    /// No jobs are taken, and the pool keeps trying: the connection was lost, the broker refuses
    /// the user, the vhost is gone, all slots are lost. It resumes by itself when the cause is
    /// removed.
    Interrupted {
        /// The start of the interruption. In JSON: milliseconds since 1970 (`since_ms`).
        #[serde(rename = "since_ms", serialize_with = "millis::serialize")]
        since: SystemTime,
        /// The cause and a remedy.
        error: Error,
    },
    /// A job that may crash its worker runs alone, and the queues wait for its end.
    Resting,
    /// The queue is [paused](crate::admin::Admin::pause). Attempts that run go on.
    Paused {
        /// The start of the pause, if it is known. In JSON: milliseconds since 1970 (`since_ms`).
        #[serde(rename = "since_ms", serialize_with = "millis::option")]
        since: Option<SystemTime>,
        /// The reason, if it is known.
        why: Option<String>,
    },
    /// The pool was [told](crate::admin::Order::Quiet) to take no more jobs.
    Quiet,
    /// No jobs are taken any more: the pool was shut down, or failed with this error.
    Ended(Option<Error>),
}

impl QueueState {
    /// Whether jobs are taken from the queue, or nothing but an order or a solo run keeps them.
    fn is_healthy(&self) -> bool {
        matches!(self, Self::Consuming | Self::Resting | Self::Paused { .. } | Self::Quiet)
    }

    /// Whether jobs are taken from the queue, or it is paused for a solo run.
    fn is_consuming(&self) -> bool {
        matches!(self, Self::Consuming | Self::Resting)
    }
}

/// The state of a task that consumes a queue, set by the task and read by health checks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status(watch::Sender<Doing>);

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Resting,
    Consuming {
        interruptions: watch::Receiver<Option<Interruption>>,
        /// The engine's names of the consumer.
        names: Vec<String>,
    },
    Paused(Pause),
    Quiet,
    Trying(Interruption),
    SlotsLost(Interruption),
    Ended(Option<Error>),
}

impl Status {
    /// A task begins to take jobs from this consumer.
    pub(crate) fn set_begun(&self, consumer: &Consumer) {
        // Not borrowed meanwhile: the engine may borrow it for the names of the consumer.
        let pause = consumer.pauses().borrow().clone();
        match pause {
            Some(pause) => self.set_paused(&pause),
            None => self.set_consuming(consumer),
        }
    }

    /// Jobs are taken from this consumer.
    pub(crate) fn set_consuming(&self, consumer: &Consumer) {
        let (interruptions, names) = (consumer.interruptions(), consumer.names());
        self.0.send_replace(Doing::Consuming { interruptions, names });
    }

    /// The queue is paused, and nothing more starts.
    pub(crate) fn set_paused(&self, pause: &Pause) {
        self.0.send_replace(Doing::Paused(pause.clone()));
    }

    /// The pool was told to take no more jobs.
    pub(crate) fn set_quiet(&self) {
        self.0.send_replace(Doing::Quiet);
    }

    /// The engine's names of the consumer from which jobs are taken.
    pub(crate) fn consumers(&self) -> Vec<String> {
        match &*self.0.borrow() {
            Doing::Consuming { names, .. } => names.clone(),
            _ => Vec::new(),
        }
    }

    /// Paused for a solo run.
    pub(crate) fn set_resting(&self) {
        self.0.send_replace(Doing::Resting);
    }

    /// Consuming failed and is retried.
    pub(crate) fn set_trying(&self, error: &Error, now: SystemTime) {
        self.0.send_modify(|doing| {
            let since = match doing {
                Doing::Trying(before) => before.since,
                _ => now,
            };
            *doing = Doing::Trying(Interruption { since, error: error.clone() });
        });
    }

    /// All slots are lost, and the task has no consumer until one is free.
    pub(crate) fn set_slots_lost(&self, error: Error, since: SystemTime) {
        self.0.send_replace(Doing::SlotsLost(Interruption { since, error }));
    }

    fn has_lost_slots(&self) -> bool {
        matches!(*self.0.borrow(), Doing::SlotsLost(_))
    }

    /// The task has ended.
    pub(crate) fn set_ended(&self, result: &Result<()>) {
        self.0.send_replace(Doing::Ended(result.as_ref().err().cloned()));
    }

    pub(crate) fn state(&self) -> QueueState {
        let interrupted = |Interruption { since, error }: &Interruption| QueueState::Interrupted {
            since: *since,
            error: error.clone(),
        };
        match &*self.0.borrow() {
            Doing::Resting => QueueState::Resting,
            Doing::Consuming { interruptions, .. } => {
                interruptions.borrow().as_ref().map_or(QueueState::Consuming, interrupted)
            }
            Doing::Trying(interruption) | Doing::SlotsLost(interruption) => {
                interrupted(interruption)
            }
            Doing::Paused(Pause { since, why, .. }) => {
                QueueState::Paused { since: *since, why: why.clone() }
            }
            Doing::Quiet => QueueState::Quiet,
            Doing::Ended(error) => QueueState::Ended(error.clone()),
        }
    }

    /// Waits for the next change of the state after this call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut doing = self.0.subscribe();
        let mut interruption = match &*doing.borrow() {
            Doing::Consuming { interruptions, .. } => interruptions.clone(),
            _ => watch::channel(None).1,
        };
        interruption.mark_unchanged();
        async move {
            tokio::select! {
                _ = doing.changed() => {}
                Ok(()) = interruption.changed() => {}
            }
        }
    }
}

/// Measures whether a queue is consumed, and whether a pause keeps it from that, from the states of
/// its two tasks, until the one that runs its jobs ends.
pub(crate) async fn measure(
    together: Status,
    alone: Status,
    (mut consuming, mut paused): (Switch, Switch),
) {
    loop {
        // Made before the states are read, so that no change is missed.
        let (changed, alone_changed) = (together.changed(), alone.changed());
        let state = state_of(&together, &alone);
        consuming.set(state.is_consuming());
        paused.set(matches!(state, QueueState::Paused { .. }));
        if matches!(together.state(), QueueState::Ended(_)) {
            return;
        }
        tokio::select! {
            () = changed => {}
            () = alone_changed => {}
        }
    }
}

/// The state of a queue from those of its two tasks: the one that runs its jobs and the one for solo
/// runs.
pub(crate) fn state_of(together: &Status, alone: &Status) -> QueueState {
    match alone.state() {
        // The other task starts nothing before it has a consumer, which is told of the pause.
        paused @ QueueState::Paused { .. } if together.has_lost_slots() => paused,
        alone => combined(together.state(), alone),
    }
}

fn combined(together: QueueState, alone: QueueState) -> QueueState {
    match (together, alone) {
        (
            QueueState::Consuming,
            trouble @ (QueueState::Interrupted { .. } | QueueState::Ended(Some(_))),
        ) => trouble,
        // It is not paused before both tasks are.
        (QueueState::Paused { .. }, QueueState::Consuming) => QueueState::Consuming,
        (state, _) => state,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::error::ErrorKind;

    fn refused() -> Error {
        Error::new(ErrorKind::Refused, "refused")
    }

    fn interrupted() -> QueueState {
        QueueState::Interrupted { since: SystemTime::UNIX_EPOCH, error: refused() }
    }

    fn paused() -> QueueState {
        QueueState::Paused { since: None, why: None }
    }

    fn health(state: QueueState) -> PoolHealth {
        let queues = vec![QueueHealth { queue: "mail".into(), state, lost_slots: 0 }];
        PoolHealth { queues, missing: None, credentials: None, relays: Vec::new() }
    }

    #[test]
    fn interrupted_and_ended_queues_are_not_healthy() {
        assert!(health(QueueState::Consuming).is_consuming());
        assert!(health(QueueState::Resting).is_consuming());
        assert!(health(paused()).is_consuming());
        assert!(health(QueueState::Quiet).is_consuming());
        assert!(!health(interrupted()).is_consuming());
        assert!(!health(QueueState::Ended(None)).is_consuming());
    }

    #[test]
    fn an_error_of_either_task_is_an_error_of_the_queue() {
        use QueueState::{Consuming, Ended, Resting};
        let table = [
            (paused(), Consuming, "Consuming"),
            (paused(), paused(), "Paused"),
            (paused(), Resting, "Paused"),
            (Consuming, paused(), "Consuming"),
            (QueueState::Quiet, Consuming, "Quiet"),
            (Consuming, Consuming, "Consuming"),
            (Consuming, interrupted(), "Interrupted"),
            (Consuming, Ended(Some(refused())), "Ended"),
            (Consuming, Ended(None), "Consuming"),
            (Resting, interrupted(), "Resting"),
            (interrupted(), Consuming, "Interrupted"),
            (Ended(None), Consuming, "Ended"),
        ];
        for (together, alone, expected) in table {
            let state = format!("{:?}", combined(together, alone));
            assert!(state.starts_with(expected), "{state}");
        }
    }

    #[test]
    fn a_queue_without_slots_is_paused_as_soon_as_its_solo_task_is() {
        let (together, alone) = (Status::default(), Status::default());
        let is_interrupted =
            || matches!(state_of(&together, &alone), QueueState::Interrupted { .. });
        together.set_slots_lost(refused(), SystemTime::UNIX_EPOCH);
        assert!(is_interrupted());
        alone.set_paused(&Pause::default());
        assert!(matches!(state_of(&together, &alone), QueueState::Paused { .. }));
        together.set_trying(&refused(), SystemTime::UNIX_EPOCH);
        assert!(is_interrupted(), "it may have a job in flight");
    }

    #[test]
    fn each_change_is_noticed_once() {
        let (interruption, interruptions) = watch::channel(None);
        let status =
            Status(watch::Sender::new(Doing::Consuming { interruptions, names: Vec::new() }));
        let changed = status.changed();
        interruption.send_replace(Some(Interruption::new(SystemTime::UNIX_EPOCH, refused())));
        assert!(changed.now_or_never().is_some());
        let changed = status.changed();
        assert!(status.changed().now_or_never().is_none(), "it has seen that");
        drop(interruption);
        assert!(status.changed().now_or_never().is_none(), "nothing follows");
        status.set_resting();
        assert!(changed.now_or_never().is_some());
        assert!(status.changed().now_or_never().is_none());
    }

    #[test]
    fn an_interruption_lasts_from_its_first_error() {
        let status = Status::default();
        let start = SystemTime::UNIX_EPOCH;
        status.set_trying(&Error::new(ErrorKind::Connection, "first"), start);
        status.set_trying(&refused(), start + Duration::from_secs(1));
        let QueueState::Interrupted { since, error } = status.state() else { panic!() };
        assert_eq!((since, error.to_string().as_str()), (start, "refused"));
        status.set_ended(&Err(refused()));
        assert!(matches!(status.state(), QueueState::Ended(Some(_))));
    }
}
