//! The reports of live pools.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Durations, PoolId, PoolRelay};
use crate::finding::{Finding, FindingKind, Severity};
use crate::job::{JobId, millis, rfc3339};

/// The report of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolReport {
    /// The pool.
    pub pool: PoolId,
    /// The name of its machine.
    pub host: String,
    /// The id of its process.
    pub pid: u32,
    /// The version of jobq that it runs.
    pub version: String,
    /// Its start, by the clock of its machine.
    #[serde(with = "rfc3339")]
    pub started_at: SystemTime,
    /// The time of this report, by the clock of its machine. `None` from a pool of an earlier
    /// version.
    #[serde(default, with = "rfc3339::option")]
    pub reported_at: Option<SystemTime>,
    /// By how many milliseconds its clock is ahead of the one of who asked; negative if it is
    /// behind. Half the round trip of the question is uncertain. `None` if that may explain the
    /// whole difference, if both are one machine as with a job file, or if the pool is of an earlier
    /// version.
    #[serde(default)]
    pub clock_offset_ms: Option<i64>,
    /// The resident memory of its process in bytes, which pools of one process share. `None` if its
    /// system is not Linux, or if the pool is of an earlier version.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Whether jobs come out of the delay levels, by what the pool heard of probes. `None` where it
    /// knows of none, and on an engine without.
    #[serde(default)]
    pub levels: Option<Passage>,
    /// Probes of pools that wait in the delay levels, where the broker counts them as jobs.
    #[serde(default)]
    pub level_probes: u32,
    /// Its queues, sorted by name.
    pub queues: Vec<PoolQueue>,
    /// Its relays. A pool of an earlier version reports none.
    #[serde(default)]
    pub relays: Vec<PoolRelay>,
}

impl PoolReport {
    /// A report of a pool of this process, without its memory.
    #[must_use]
    pub fn new(pool: PoolId, host: String, started_at: SystemTime, queues: Vec<PoolQueue>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            pool,
            host,
            pid: std::process::id(),
            version,
            started_at,
            reported_at: None,
            clock_offset_ms: None,
            memory_bytes: None,
            levels: None,
            level_probes: 0,
            queues,
            relays: Vec::new(),
        }
    }

    /// What it reports about a queue.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&PoolQueue> {
        self.queues.iter().find(|queue| queue.queue == name)
    }

    /// Findings about what jobs need and the pool lacks.
    #[cfg_attr(not(any(feature = "rabbitmq", feature = "sqlite")), allow(dead_code))]
    pub(crate) fn unmet_needs(&self) -> impl Iterator<Item = Finding> {
        let lacking = self.queues.iter().filter(|queue| !queue.unmet_needs.is_empty());
        lacking.map(|queue| {
            let words = queue.unmet_needs.join("`, `");
            let about = format!("queue `{}` of pool {} on {}", queue.queue, self.pool, self.host);
            Finding::new(FindingKind::Needs, Severity::Warning, about)
                .found(format!("jobs need `{words}`, which jobq {} does not support", self.version))
                .matters(
                    "the pool snoozes these jobs for 30 s each time, until another worker takes \
                     them",
                )
                .remedy("update the pool's program to the version of jobq that enqueued these jobs")
        })
    }
}

/// One queue in the report of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolQueue {
    /// The queue.
    pub queue: String,
    /// Whether the pool takes jobs from it.
    pub state: Activity,
    /// Since when it is in this state, by the clock of its machine, if that is known.
    #[serde(with = "rfc3339::option")]
    pub since: Option<SystemTime>,
    /// The problem, if it is interrupted or ended by an error.
    pub problem: Option<String>,
    /// How many attempts it runs at once at most.
    pub slots: u32,
    /// Slots of functions that did not end within a second of their timeout or cancellation.
    pub lost_slots: u32,
    /// The attempts whose functions hold the lost slots, the longest first, at most 1,000. The jobs
    /// were settled when the attempts were told to end, so that they may run again meanwhile. A pool
    /// of an earlier version reports none.
    #[serde(default)]
    pub lost: Vec<RunningJob>,
    /// Jobs that were delivered to the pool and are not settled, those that run included.
    pub in_flight: u32,
    /// Those of them that were taken ahead: they wait for a free slot. `None` if the pool is of an
    /// earlier version.
    #[serde(default)]
    pub ahead: Option<u32>,
    /// The attempts that run, the longest first, at most 1,000.
    pub running: Vec<RunningJob>,
    /// The outcomes of the last minute.
    pub minute: LastMinute,
    /// The words of the header `jobq-needs` that the pool's version of jobq lacks, of jobs of the last
    /// minute: these jobs wait for another worker. A pool of an earlier version reports none.
    #[serde(default)]
    pub unmet_needs: Vec<String>,
    /// The engine's names of the consumers of the pool.
    pub consumers: Vec<String>,
    /// Whether jobs come out of the delay tiers of the queue of up to a minute, by what the pool
    /// heard of probes. `None` if there is no such tier, on an engine without, and from a pool of an
    /// earlier version.
    #[serde(default)]
    pub waits: Option<Passage>,
    /// Probes of pools that wait in those tiers, where the broker counts them as jobs.
    #[serde(default)]
    pub probes: u32,
}

/// Whether jobs that wait in a broker come through when they are due, in ascending order of
/// trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Passage {
    /// Probes come in time.
    Passing = 1,
    /// A probe is more than 30 seconds late.
    Late = 2,
    /// A probe is more than 210 seconds late: nothing is passed on.
    Stuck = 3,
    /// No probe came yet: the connection is new, or an alarm blocks it. The least of all, although
    /// `other` must be the last.
    #[serde(other)]
    Unknown = 0,
}

impl Passage {
    /// The longest wait that is probed, in milliseconds.
    pub(crate) const LONGEST_MS: u64 = 60_000;

    /// Its name, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Late => "late",
            Self::Stuck => "stuck",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PoolQueue {
    /// A queue with this many slots that does nothing yet.
    #[must_use]
    pub fn new(queue: impl Into<String>, slots: u32) -> Self {
        Self {
            queue: queue.into(),
            state: Activity::Consuming,
            since: None,
            problem: None,
            slots,
            lost_slots: 0,
            lost: Vec::new(),
            in_flight: 0,
            ahead: Some(0),
            running: Vec::new(),
            minute: LastMinute::default(),
            unmet_needs: Vec::new(),
            consumers: Vec::new(),
            waits: None,
            probes: 0,
        }
    }
}

/// Whether a pool takes jobs from a queue, for reports. [`QueueState`](crate::QueueState) has more
/// about the pool of one's own program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// Jobs are taken.
    Consuming,
    /// No jobs are taken because of a problem, and the pool keeps trying.
    Interrupted,
    /// A job that may crash its worker runs alone, and the queue waits for its end.
    Resting,
    /// The queue is paused.
    Paused,
    /// The pool was told to take no more jobs.
    Quiet,
    /// No jobs are taken any more.
    Ended,
}

impl Activity {
    /// Its name, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Consuming => "consuming",
            Self::Interrupted => "interrupted",
            Self::Resting => "resting",
            Self::Paused => "paused",
            Self::Quiet => "quiet",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An attempt that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunningJob {
    /// The job.
    pub id: JobId,
    /// The name of the job.
    pub job: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How long it has run. In JSON: whole milliseconds (`running_ms`).
    #[serde(rename = "running_ms", with = "millis::duration")]
    pub running: Duration,
    /// The timeout of an attempt. In JSON: whole milliseconds (`timeout_ms`).
    #[serde(rename = "timeout_ms", with = "millis::duration::option")]
    pub timeout: Option<Duration>,
}

impl RunningJob {
    /// An attempt of a job that has run this long.
    #[must_use]
    pub fn new(id: JobId, job: impl Into<String>, attempt: u32, running: Duration) -> Self {
        Self { id, job: job.into(), attempt, running, timeout: None }
    }

    /// Whether it has run longer than its timeout.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.timeout.is_some_and(|timeout| self.running > timeout)
    }
}

/// What a pool did with the jobs of a queue in the last minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastMinute {
    /// Jobs completed.
    pub completed: u64,
    /// Attempts failed that are retried.
    pub retried: u64,
    /// Jobs failed for good.
    pub failed: u64,
    /// The longest wait from due to start. `None` if nothing started. In JSON: whole milliseconds
    /// (`waited_ms`).
    #[serde(rename = "waited_ms", with = "millis::duration::option")]
    pub waited: Option<Duration>,
    /// How long the functions of these attempts ran, of those that were called. A pool of an
    /// earlier version reports none.
    #[serde(default)]
    pub durations: Durations,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::Reply;
    use crate::job::from_millis;

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let mut queue = PoolQueue::new("mail", 4);
        queue.since = Some(from_millis(1_700_000_000_123));
        queue.running =
            vec![RunningJob::new(JobId::new(), "greet", 2, Duration::from_millis(1_500))];
        queue.minute.waited = Some(Duration::from_millis(7));
        queue.minute.durations.record(Duration::from_micros(1_500));
        let mut report = PoolReport::new(
            PoolId::new(),
            "web1".into(),
            from_millis(1_700_000_000_000),
            vec![queue],
        );
        report.memory_bytes = Some(1_048_576);
        report.reported_at = Some(from_millis(1_700_000_000_123));
        (report.levels, report.queues[0].waits) = (Some(Passage::Passing), Some(Passage::Stuck));
        let json = serde_json::to_value(Reply::Report(report.clone())).unwrap();
        assert_eq!(json["reply"], "report");
        assert_eq!(json["started_at"], "2023-11-14T22:13:20.000Z");
        assert_eq!(json["queues"][0]["since"], "2023-11-14T22:13:20.123Z");
        assert_eq!(json["queues"][0]["running"][0]["running_ms"], 1_500);
        assert_eq!(json["queues"][0]["minute"]["waited_ms"], 7);
        assert_eq!(json["queues"][0]["minute"]["durations"]["p50_ms"], 1.472);
        assert_eq!(json["memory_bytes"], 1_048_576);
        assert_eq!(
            (&json["levels"], &json["queues"][0]["waits"]),
            (&json!("passing"), &json!("stuck"))
        );
        assert!(serde_json::from_value::<Passage>(json!("slow")).unwrap() < Passage::Passing);
        assert_eq!(
            serde_json::from_value::<Reply>(json.clone()).unwrap(),
            Reply::Report(report.clone())
        );

        let mut earlier = json;
        for later in ["memory_bytes", "reported_at", "clock_offset_ms", "levels", "level_probes"] {
            earlier.as_object_mut().unwrap().remove(later);
        }
        for later in ["waits", "probes"] {
            earlier["queues"][0].as_object_mut().unwrap().remove(later);
        }
        (report.memory_bytes, report.reported_at) = (None, None);
        (report.levels, report.queues[0].waits) = (None, None);
        assert_eq!(serde_json::from_value::<Reply>(earlier).unwrap(), Reply::Report(report));
    }

    #[test]
    fn a_report_of_another_version_is_read() {
        let earlier = json!({"completed": 3, "retried": 0, "failed": 1, "waited_ms": 7});
        let mut later = earlier.clone();
        later["durations"] = json!({"p99_ms": 2.5, "counts_us": [[1_500, 3]]});
        later["slept_ms"] = json!(1);
        for (json, durations) in [(earlier, 0), (later, 3)] {
            let minute: LastMinute = serde_json::from_value(json).unwrap();
            assert_eq!((minute.completed, minute.durations.count()), (3, durations));
        }
    }
}
