//! What a pool can say of itself: which of its queues it takes jobs from, and why not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::watch;

use crate::engine::{Consumer, Interruption};
use crate::error::{Error, Result};
use crate::job::millis;

/// What a pool is doing at this moment, from [`RunningPool::health`](crate::RunningPool::health).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PoolHealth {
    /// Its queues, in the order of their names.
    pub queues: Vec<QueueHealth>,
    /// What somebody deleted on the broker that this pool needs: exchanges and queues, by their
    /// names. Jobs may wait for them, retries above all, though the queues are consumed. `None`
    /// where all is there. A pool looks for it every 30 to 50 seconds and declares it again, so
    /// this is an error only where the pool's user may not, and until somebody else has. It is
    /// `None` on SQLite, where nothing can be deleted alone.
    pub missing: Option<Error>,
}

impl PoolHealth {
    /// Whether the pool takes jobs from all of its queues, or rests to run one alone.
    #[must_use]
    pub fn is_consuming(&self) -> bool {
        let fine =
            |state: &QueueState| matches!(state, QueueState::Consuming | QueueState::Resting);
        self.queues.iter().all(|queue| fine(&queue.state))
    }
}

/// What a pool is doing with one queue.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct QueueHealth {
    /// The queue, as the user named it.
    pub queue: String,
    /// Whether jobs are taken from it.
    pub state: QueueState,
    /// How many of its slots (its `concurrency`) are lost: taken by functions that did not end
    /// within a second of their timeout, which nothing can stop: a blocking function, or an
    /// `async fn` that loops without an `.await`. Their attempts have failed, and each keeps
    /// its slot until it ends. A queue that has lost all its slots runs no job, and only a new
    /// process helps. Each is logged, too.
    pub lost_slots: usize,
}

/// Whether a pool takes jobs from a queue.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueState {
    /// It does, as far as is known: a connection that has silently gone away is noticed when
    /// its heartbeats are missing.
    Consuming,
    /// It does not for now, and goes on trying: the connection was lost, the broker refuses
    /// the user, the vhost is gone. It goes on by itself when the cause is removed.
    Interrupted {
        /// Since when. As JSON, in milliseconds since 1970 (`since_ms`).
        #[serde(rename = "since_ms", serialize_with = "millis::serialize")]
        since: SystemTime,
        /// Why, with what to do.
        error: Error,
    },
    /// A job that may take its worker down runs alone, and the queues wait for its end.
    Resting,
    /// It does not any more: the pool was shut down, or this error says why and what to do.
    Ended(Option<Error>),
}

/// The state of a task that consumes a queue, set by the task and read by health checks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status(Arc<Mutex<Doing>>);

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Resting,
    Consuming(watch::Receiver<Option<Interruption>>),
    Trying(Interruption),
    Ended(Option<Error>),
}

impl Status {
    /// That of a task which takes jobs from this consumer.
    pub(crate) fn of(consumer: &Consumer) -> Self {
        let status = Self::default();
        status.set_consuming(consumer);
        status
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It takes jobs from this consumer.
    pub(crate) fn set_consuming(&self, consumer: &Consumer) {
        *self.doing() = Doing::Consuming(consumer.interruptions());
    }

    /// It takes none, so that a job can run alone.
    pub(crate) fn set_resting(&self) {
        *self.doing() = Doing::Resting;
    }

    /// It would take jobs, and cannot yet.
    pub(crate) fn set_trying(&self, error: &Error) {
        let mut doing = self.doing();
        let since = match &*doing {
            Doing::Trying(before) => before.since,
            _ => SystemTime::now(),
        };
        *doing = Doing::Trying(Interruption { since, error: error.clone() });
    }

    /// It has ended.
    pub(crate) fn set_ended(&self, result: &Result<()>) {
        *self.doing() = Doing::Ended(result.as_ref().err().cloned());
    }

    pub(crate) fn state(&self) -> QueueState {
        let interrupted = |Interruption { since, error }: &Interruption| QueueState::Interrupted {
            since: *since,
            error: error.clone(),
        };
        match &*self.doing() {
            Doing::Resting => QueueState::Resting,
            Doing::Consuming(interruption) => {
                interruption.borrow().as_ref().map_or(QueueState::Consuming, interrupted)
            }
            Doing::Trying(interruption) => interrupted(interruption),
            Doing::Ended(error) => QueueState::Ended(error.clone()),
        }
    }
}

/// The state of a queue, by what the task that runs its jobs says and the one that runs
/// those of them that must run alone.
pub(crate) fn both(together: QueueState, alone: QueueState) -> QueueState {
    match (together, alone) {
        (
            QueueState::Consuming,
            trouble @ (QueueState::Interrupted { .. } | QueueState::Ended(Some(_))),
        ) => trouble,
        (state, _) => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn gone() -> Error {
        Error::new(ErrorKind::Refused, "gone")
    }

    fn interrupted() -> QueueState {
        QueueState::Interrupted { since: SystemTime::UNIX_EPOCH, error: gone() }
    }

    fn health(state: QueueState) -> PoolHealth {
        let queues = vec![QueueHealth { queue: "mail".into(), state, lost_slots: 0 }];
        PoolHealth { queues, missing: None }
    }

    #[test]
    fn only_a_queue_that_is_consumed_or_rests_is_well() {
        assert!(health(QueueState::Consuming).is_consuming());
        assert!(health(QueueState::Resting).is_consuming());
        assert!(!health(interrupted()).is_consuming());
        assert!(!health(QueueState::Ended(None)).is_consuming());
    }

    #[test]
    fn trouble_of_either_task_is_trouble_of_the_queue() {
        use QueueState::{Consuming, Ended, Resting};
        let table = [
            (Consuming, Consuming, "Consuming"),
            (Consuming, interrupted(), "Interrupted"),
            (Consuming, Ended(Some(gone())), "Ended"),
            (Consuming, Ended(None), "Consuming"),
            (Resting, interrupted(), "Resting"),
            (interrupted(), Consuming, "Interrupted"),
            (Ended(None), Consuming, "Ended"),
        ];
        for (together, alone, expected) in table {
            let state = format!("{:?}", both(together, alone));
            assert!(state.starts_with(expected), "{state}");
        }
    }

    #[test]
    fn an_interruption_lasts_from_its_first_error() {
        let status = Status::default();
        status.set_trying(&Error::new(ErrorKind::Connection, "first"));
        let QueueState::Interrupted { since: first, .. } = status.state() else { panic!() };
        status.set_trying(&gone());
        let QueueState::Interrupted { since, error } = status.state() else { panic!() };
        assert_eq!((since, error.to_string().as_str()), (first, "gone"));
        status.set_ended(&Err(gone()));
        assert!(matches!(status.state(), QueueState::Ended(Some(_))));
    }
}
