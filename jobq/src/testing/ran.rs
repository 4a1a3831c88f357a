use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::Settlement;
use crate::job::{FailedReason, Job, JobId};
use crate::period;
use crate::worker::Decision;

/// One attempt that [`Jobs`](super::Jobs) made.
#[derive(Debug, Clone)]
pub struct Attempted {
    pub(super) job: String,
    pub(super) id: JobId,
    pub(super) attempt: u32,
    /// The time of the clock.
    pub(super) at: SystemTime,
    pub(super) end: End,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Retried {
        wait: Duration,
        error: String,
    },
    Snoozed {
        wait: Duration,
    },
    Failed {
        reason: FailedReason,
        error: String,
    },
    /// The job was handed back, as when the runtime has ended.
    Released,
}

impl End {
    pub(super) fn of(decision: &Decision) -> Self {
        let error = decision.failure.error().to_owned();
        match &decision.settlement {
            Settlement::Complete => Self::Completed,
            Settlement::Retry(wait) => Self::Retried { wait: *wait, error },
            Settlement::Snooze(wait) => Self::Snoozed { wait: *wait },
            Settlement::Fail { reason, .. } => Self::Failed { reason: *reason, error },
            Settlement::Release | Settlement::Isolate | Settlement::Start => Self::Released,
        }
    }
}

impl Attempted {
    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job's name.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The number of the attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The time of the clock at which the attempt ran.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        self.at
    }

    /// Whether the job is done.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.end == End::Completed
    }

    /// The text of the error with its sources, if the attempt failed.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.end {
            End::Retried { error, .. } | End::Failed { error, .. } => Some(error),
            End::Completed | End::Snoozed { .. } | End::Released => None,
        }
    }

    /// The wait before the next attempt, if there is one after this failed attempt.
    #[must_use]
    pub fn retried_after(&self) -> Option<Duration> {
        match self.end {
            End::Retried { wait, .. } => Some(wait),
            _ => None,
        }
    }

    /// The wait before the job runs again, if it was snoozed.
    #[must_use]
    pub fn snoozed_for(&self) -> Option<Duration> {
        match self.end {
            End::Snoozed { wait } => Some(wait),
            _ => None,
        }
    }

    /// The reason for which the job failed for good, if it did.
    #[must_use]
    pub fn failed_as(&self) -> Option<FailedReason> {
        match self.end {
            End::Failed { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// Such as `send_welcome, attempt 2: retried after 30s: no route to host`.
impl fmt::Display for Attempted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, attempt {}: ", self.job, self.attempt)?;
        match &self.end {
            End::Completed => f.write_str("completed"),
            End::Retried { wait, error } => {
                write!(f, "retried after {}: {error}", period::format(*wait))
            }
            End::Snoozed { wait } => write!(f, "snoozed for {}", period::format(*wait)),
            End::Failed { reason, error } => write!(f, "failed for good ({reason}): {error}"),
            End::Released => f.write_str("handed back"),
        }
    }
}

/// The attempts that a call of [`Jobs`](super::Jobs) made, in order.
#[derive(Debug, Clone, Default)]
#[must_use = "look at what ran, for example by `.all_completed()`"]
pub struct Ran {
    pub(super) attempts: Vec<Attempted>,
    /// How many of them are of jobs that no schedule enqueued.
    pub(super) unscheduled: usize,
}

impl Ran {
    /// The attempts, in order.
    #[must_use]
    pub fn attempts(&self) -> &[Attempted] {
        &self.attempts
    }

    /// The attempts of jobs of this type, in order.
    pub fn of<J: Job>(&self) -> impl Iterator<Item = &Attempted> {
        self.attempts.iter().filter(|attempt| attempt.job == J::NAME)
    }

    /// Returns if each attempt has completed its job.
    ///
    /// # Panics
    ///
    /// With each other attempt and its error; if nothing ran.
    #[track_caller]
    pub fn all_completed(&self) {
        assert!(!self.attempts.is_empty(), "no job ran: none was due");
        let others = self.attempts.iter().filter(|attempt| !attempt.is_completed());
        let others: Vec<_> = others.map(|attempt| format!("\n  {attempt}")).collect();
        let (count, all) = (others.len(), self.attempts.len());
        assert!(
            others.is_empty(),
            "{count} of {all} attempts did not complete their job:{}",
            others.concat()
        );
    }
}
