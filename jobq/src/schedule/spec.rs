//! The content of a schedule, as seats keep it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Schedule;
use super::deadlines::Deadlines;
use crate::error::{Error, Result};
use crate::job::{Missed, check_name};

/// The most bytes of a payload.
pub(crate) const MAX_PAYLOAD: usize = 8 * 1024;

/// A job, and the times at which it is enqueued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) job: String,
    /// JSON.
    pub(crate) payload: String,
    /// Cron expressions and periods, as [`Schedule::text`] has them.
    pub(crate) times: Vec<String>,
    pub(crate) zone: String,
    pub(crate) missed: Missed,
    #[serde(default)]
    pub(crate) jitter_ms: u64,
    /// How long after it was enqueued an attempt of the job may start.
    #[serde(default)]
    pub(crate) expires_ms: Option<u64>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
}

impl Spec {
    /// Returns an error unless pools can keep the schedule.
    pub(crate) fn check(&self, queue: &str) -> Result<Deadlines> {
        check_name("schedule", &self.name)?;
        let size = self.payload.len();
        if size > MAX_PAYLOAD {
            return Err(Error::invalid(format!(
                "the payload of schedule `{}` has {size} bytes, more than the limit of {MAX_PAYLOAD}; \
                 store the data elsewhere and send a reference to it",
                self.name
            )));
        }
        if self.times.is_empty() {
            return Err(Error::invalid(format!(
                "schedule `{}` has no times; add them with `.cron(\"30 2 * * *\")` or \
                 `.every(\"10m\")`",
                self.name
            )));
        }
        self.deadlines(queue)
    }

    /// Whether another one has the same deadlines.
    pub(crate) fn has_times_of(&self, other: &Self) -> bool {
        (&self.times, &self.zone, self.jitter_ms) == (&other.times, &other.zone, other.jitter_ms)
    }

    /// The deadlines, if this version and this machine know the times and the zone.
    pub(crate) fn deadlines(&self, queue: &str) -> Result<Deadlines> {
        let times = self.times.iter().map(|text| Schedule::of_text(text)?.zone(&self.zone));
        let times = times.collect::<Result<Vec<_>>>()?;
        Deadlines::new(queue, &self.name, times, Duration::from_millis(self.jitter_ms))
    }
}
