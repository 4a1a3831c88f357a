use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Schedule;
use super::spec::Spec;
use crate::error::Result;
use crate::job::{Missed, rfc3339};

/// A schedule: a job, and the times at which it is enqueued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleReport {
    /// The name of the schedule: that of the job, if the schedule is part of its code.
    pub name: String,
    /// The queue of the job.
    pub queue: String,
    /// The name of the job.
    pub job: String,
    /// The payload, as JSON.
    pub payload: String,
    /// Cron expressions, and periods such as `every 10m`.
    pub times: Vec<String>,
    /// The time zone of the cron expressions.
    pub zone: String,
    /// The handling of missed times.
    pub missed: Missed,
    /// The limit of the delay with which a job is enqueued after it is due, in milliseconds.
    pub jitter_ms: u64,
    /// Whether the schedule is part of the code of a pool. If not, a client made it.
    pub in_code: bool,
    /// The program that made or last replaced the schedule.
    pub by: String,
    /// When the schedule was paused, if it is.
    #[serde(with = "rfc3339::option")]
    pub paused: Option<SystemTime>,
    /// The name of the person or program that paused it.
    pub paused_by: Option<String>,
    /// The last time that was dealt with since the schedule was made, changed or resumed: a job was
    /// enqueued for it, unless it was missed or refused.
    #[serde(with = "rfc3339::option")]
    pub last: Option<SystemTime>,
    /// Why the last job was not enqueued, or why the schedule enqueues none.
    pub problem: Option<String>,
}

impl ScheduleReport {
    /// The first times after this one at which a job is due, in order; none while the schedule is
    /// paused.
    ///
    /// # Errors
    ///
    /// Times or a zone that this version of jobq or this machine does not know.
    pub fn next(&self, after: SystemTime, count: usize) -> Result<Vec<SystemTime>> {
        if self.paused.is_some() {
            return Ok(Vec::new());
        }
        let times = self.times.iter().map(|text| Schedule::of_text(text)?.zone(&self.zone));
        let times = times.collect::<Result<Vec<_>>>()?;
        let mut next: Vec<_> =
            times.iter().flat_map(|times| times.after(after).take(count)).collect();
        next.sort_unstable();
        next.dedup();
        next.truncate(count);
        Ok(next)
    }

    /// Writes a time as the clocks of the zone show it, as [`Schedule::local`] does. In UTC if this
    /// machine does not know the zone.
    #[must_use]
    pub fn local(&self, time: SystemTime) -> String {
        self.zoned().map(|schedule| schedule.local(time)).unwrap_or_default()
    }

    /// Writes a time in words, as the clocks of the zone show it: `Monday, 30 November 2026, 02:30:00
    /// (+01:00)`.
    #[must_use]
    pub fn words(&self, time: SystemTime) -> String {
        self.zoned().map(|schedule| schedule.words(time)).unwrap_or_default()
    }

    /// A schedule in the zone.
    fn zoned(&self) -> Result<Schedule> {
        let every = Schedule::every("1s")?;
        every.clone().zone(&self.zone).or(Ok(every))
    }

    pub(super) fn new(queue: &str, spec: &Spec) -> Self {
        Self {
            name: spec.name.clone(),
            queue: queue.to_owned(),
            job: spec.job.clone(),
            payload: spec.payload.clone(),
            times: spec.times.clone(),
            zone: spec.zone.clone(),
            missed: spec.missed,
            jitter_ms: spec.jitter_ms,
            in_code: false,
            by: String::new(),
            paused: None,
            paused_by: None,
            last: None,
            problem: None,
        }
    }
}

/// The schedules of a queue, and what became of changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeatReport {
    pub(crate) schedules: Vec<ScheduleReport>,
    /// Changes that were refused, the newest last.
    pub(crate) refused: Vec<String>,
}
