use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::job::FailedJob;

/// The failed jobs that a queue had at one moment, by their number and not by a time: clocks of
/// machines differ. [`Operation::within`](crate::admin::Operation::within) limits an operation to
/// them.
///
/// Those are the oldest ones, since a job that fails joins the end. On RabbitMQ an extent is a
/// count alone: where others remove some of these jobs, as many later ones take their places. In a
/// job file it also has the number of the last row.
///
/// It is opaque: its text form has no meaning but for [`FromStr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    jobs: u64,
    /// The number of the last one, where the engine numbers them.
    last: Option<u64>,
}

impl Extent {
    /// The oldest failed jobs, this many.
    #[must_use]
    pub fn new(jobs: u64) -> Self {
        Self { jobs, last: None }
    }

    /// Those of them up to this number.
    #[cfg(feature = "sqlite")]
    pub(crate) fn up_to(self, last: u64) -> Self {
        Self { last: Some(last), ..self }
    }

    /// Whether a job is one of them that comes after this many others.
    pub(crate) fn has(self, seen: u64, job: &FailedJob) -> bool {
        let is_later = job.number().zip(self.last).is_some_and(|(number, last)| number > last);
        seen < self.jobs && !is_later
    }

    /// The jobs that are in both.
    pub(crate) fn and(self, other: Self) -> Self {
        let last = self.last.into_iter().chain(other.last).min();
        Self { jobs: self.jobs.min(other.jobs), last }
    }

    /// Those that are left when this many are gone.
    pub(crate) fn without(self, gone: usize) -> Self {
        Self { jobs: self.jobs.saturating_sub(gone as u64), ..self }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => write!(f, "{}.{last}", self.jobs),
            None => self.jobs.fmt(f),
        }
    }
}

impl FromStr for Extent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = || {
            let (jobs, last) = text.split_once('.').map_or((text, None), |(j, l)| (j, Some(l)));
            let last = last.map(str::parse).transpose().ok()?;
            Some(Self { jobs: jobs.parse().ok()?, last })
        };
        parsed().ok_or_else(|| {
            Error::invalid(format!(
                "`{text}` is not a valid extent: expected one from an earlier dry run; repeat the \
                 dry run"
            ))
        })
    }
}

impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(jobs: u64, last: Option<u64>) -> Extent {
        Extent { jobs, last }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn an_extent_has_the_first_jobs_up_to_its_last() {
        use crate::job::{Envelope, FailedReason, from_millis};
        let job = |number: Option<u64>| {
            let (envelope, reason) = (Envelope::new("mail", Vec::new()), FailedReason::Exhausted);
            let job = FailedJob::new(envelope, 1, reason, String::new(), from_millis(0));
            number.map_or(job.clone(), |number| job.numbered(number))
        };
        for (extent, seen, number, expected) in [
            (extent(2, None), 0, None, true),
            (extent(2, None), 1, Some(9), true),
            (extent(2, None), 2, None, false),
            (extent(2, Some(7)), 0, Some(7), true),
            (extent(2, Some(7)), 0, Some(8), false),
            (extent(2, Some(7)), 2, Some(7), false),
            (extent(0, Some(7)), 0, Some(1), false),
        ] {
            assert_eq!(extent.has(seen, &job(number)), expected, "{extent} {seen} {number:?}");
        }
    }

    #[test]
    fn extents_shrink_alone() {
        for (one, other, both) in [
            (extent(5, None), extent(3, None), extent(3, None)),
            (extent(5, Some(9)), extent(8, Some(20)), extent(5, Some(9))),
            (extent(5, Some(9)), extent(3, None), extent(3, Some(9))),
        ] {
            assert_eq!((one.and(other), other.and(one)), (both, both));
        }
        assert_eq!(extent(5, Some(9)).without(2), extent(3, Some(9)));
        assert_eq!(extent(5, None).without(9), extent(0, None));
    }

    #[test]
    fn an_extent_is_read_as_it_was_written() {
        for extent in [extent(0, None), extent(120, Some(5_523)), extent(u64::MAX, Some(0))] {
            assert_eq!(extent.to_string().parse::<Extent>().unwrap(), extent);
        }
        for text in ["", "-1", "1.", "1.2.3", "2026-11-27T01:05:00"] {
            assert!(text.parse::<Extent>().unwrap_err().is_invalid(), "{text}");
        }
    }
}
