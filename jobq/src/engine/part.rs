use std::fmt;
use std::time::Duration;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::{Counts, Figure};
use crate::job::Priority;
use crate::period;

/// The jobs of a queue that are in one place.
///
/// In JSON a number that is unknown is `null`, and `unknown` is the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The place.
    pub place: Place,
    /// How many jobs are there, those in flight not included.
    pub jobs: Figure<u64>,
}

/// A place in which jobs of a queue are. Each job that is not in flight is in one of them; on
/// RabbitMQ it may also be in the delay levels, which the queues of a namespace share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Place {
    /// Due, with a high priority, for the next free slot of any pool.
    High,
    /// Due, for the next free slot of any pool.
    Ready,
    /// Due, with a low priority: they mostly start when no other job is due.
    Low,
    /// Due and suspected of crashing workers: a pool runs them one by one, with nothing else.
    Solo,
    /// Not due yet.
    Waiting,
    /// Not due yet, in the tier of RabbitMQ for waits of this length.
    Tier(Duration),
    /// On RabbitMQ on their way from the delay levels into the queue, which takes them at once if it
    /// is not full.
    Due,
    /// Failed.
    Failed,
}

impl Part {
    /// So many jobs in a place.
    #[must_use]
    pub fn new(place: Place, jobs: impl Into<Figure<u64>>) -> Self {
        Self { place, jobs: jobs.into() }
    }
}

impl Place {
    /// The place of due jobs with this priority.
    pub(crate) fn of_due(priority: Priority) -> Self {
        match priority {
            Priority::High => Self::High,
            Priority::Normal => Self::Ready,
            Priority::Low => Self::Low,
        }
    }

    /// Its name, as in JSON: without the length of a tier.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Ready => "ready",
            Self::Low => "low",
            Self::Solo => "solo",
            Self::Waiting => "waiting",
            Self::Tier(_) => "tier",
            Self::Due => "due",
            Self::Failed => "failed",
        }
    }

    /// The length of a tier.
    #[must_use]
    pub fn wait(self) -> Option<Duration> {
        match self {
            Self::Tier(wait) => Some(wait),
            _ => None,
        }
    }
}

/// For people: `tier 30s`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait() {
            Some(wait) => f.pad(&format!("{} {}", self.as_str(), period::format(wait))),
            None => f.pad(self.as_str()),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = serializer.serialize_struct("Part", 4)?;
        part.serialize_field("place", self.place.as_str())?;
        part.serialize_field("wait_ms", &self.place.wait().map(period::millis))?;
        part.serialize_field("jobs", &self.jobs)?;
        part.serialize_field("unknown", &self.jobs.why())?;
        part.end()
    }
}

impl Counts {
    /// The counts of a queue whose jobs are in these places.
    #[must_use]
    pub fn from_parts(parts: &[Part]) -> Self {
        let mut counts = Self::new(0, 0, 0);
        for part in parts {
            let sum = match part.place {
                Place::High | Place::Ready | Place::Low | Place::Solo => &mut counts.ready,
                Place::Waiting | Place::Tier(_) | Place::Due => &mut counts.waiting,
                Place::Failed => &mut counts.failed,
            };
            *sum = sum.clone().zip(part.jobs.clone(), u64::saturating_add);
        }
        counts
    }

    /// The three parts that the counts tell apart.
    #[must_use]
    pub fn into_parts(self) -> Vec<Part> {
        let Self { ready, waiting, failed } = self;
        let parts = [(Place::Ready, ready), (Place::Waiting, waiting), (Place::Failed, failed)];
        parts.map(|(place, jobs)| Part { place, jobs }).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_queue_make_its_counts() {
        let tier = |seconds| Place::Tier(Duration::from_secs(seconds));
        let parts = [
            Part::new(Place::Ready, 1),
            Part::new(Place::Solo, 2),
            Part::new(tier(30), 4),
            Part::new(tier(90), 8),
            Part::new(Place::Due, 16),
            Part::new(Place::Failed, 32),
            Part::new(Place::High, 64),
            Part::new(Place::Low, 128),
        ];
        assert_eq!(Counts::from_parts(&parts), Counts::new(195, 28, 32));
        assert_eq!(Counts::from_parts(&Counts::new(5, 6, 7).into_parts()), Counts::new(5, 6, 7));
        let unknown = [Part::new(tier(30), 4), Part::new(Place::Due, Figure::unknown("no leader"))];
        let counts = Counts::from_parts(&unknown);
        assert_eq!((counts.waiting.why(), counts.ready), (Some("no leader"), 0.into()));
    }

    #[test]
    fn a_part_is_named_alike_for_people_and_for_programs() {
        let tier = Part::new(Place::Tier(Duration::from_secs(90)), 7);
        let json =
            serde_json::json!({"place": "tier", "wait_ms": 90_000, "jobs": 7, "unknown": null});
        assert_eq!(serde_json::to_value(&tier).unwrap(), json);
        assert_eq!(tier.place.to_string(), "tier 1m30s");
        let due = Part::new(Place::Due, Figure::unknown("no leader"));
        let json = serde_json::json!({"place": "due", "wait_ms": null, "jobs": null, "unknown": "no leader"});
        assert_eq!(serde_json::to_value(&due).unwrap(), json);
        assert_eq!(due.place.to_string(), "due");
    }
}
