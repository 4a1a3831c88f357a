//! The way of a job that has to wait: through a tier of its queue, or through the levels.
//! Pure.

use std::time::Duration;

use super::levels::{self, Entry, HORIZON};
use super::topology::{Names, Tiers};
use crate::error::{Error, Result};
use crate::period;

/// How a job gets into its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// At once.
    Now,
    /// Through the queue's tier of this wait, in milliseconds.
    Tier(u64),
    /// Through the levels.
    Levels(Entry),
}

impl Way {
    /// The way of a job for this queue.
    ///
    /// # Errors
    ///
    /// A wait that is longer than what the levels hold.
    pub(crate) fn new(millis: u64, queue: &str, tiers: &Tiers) -> Result<Self> {
        if millis == 0 {
            return Ok(Self::Now);
        }
        if tiers.contains(&millis) {
            return Ok(Self::Tier(millis));
        }
        levels::entry(millis, queue).map(Self::Levels).ok_or_else(|| {
            let text = |millis| period::format(Duration::from_millis(millis));
            let (asked, horizon) = (text(millis), text(HORIZON));
            Error::invalid(format!(
                "a delay of {asked} is longer than {horizon}, the longest that jobq has \
                 RabbitMQ hold; enqueue the job later"
            ))
        })
    }

    /// The exchange and the routing key.
    pub(crate) fn address(&self, names: &Names, queue: &str) -> (String, String) {
        match self {
            Self::Now => (names.jobs(), queue.to_owned()),
            Self::Tier(_) => (names.retry(queue), queue.to_owned()),
            Self::Levels(entry) => (names.level(entry.level), entry.key.clone()),
        }
    }

    /// What the header `jobq-wait` must say on this way.
    pub(crate) fn wait(&self) -> Option<u64> {
        match self {
            Self::Tier(millis) => Some(*millis),
            Self::Now | Self::Levels(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_has_a_way() {
        let names = Names::new("jobq");
        let tiers: Tiers = [1_000, 30_000, HORIZON].into();
        let zeros = "0.0.0.0.0.0.0.0";
        let table = [
            (0, "jobq", "mail".to_owned(), None),
            (1, "jobq.level.0", format!("{zeros}.0.0.1.q.mail"), None),
            (1_000, "jobq:mail@retry", "mail".to_owned(), Some(1_000)),
            (1_001, "jobq.level.1", format!("{zeros}.0.1.3.q.mail"), None),
            (30_000, "jobq:mail@retry", "mail".to_owned(), Some(30_000)),
            (HORIZON - 1, "jobq.level.10", "2.7.3.7.6.0.1.7.0.0.0.q.mail".to_owned(), None),
            (HORIZON, "jobq:mail@retry", "mail".to_owned(), Some(HORIZON)),
        ];
        for (millis, exchange, key, wait) in table {
            let way = Way::new(millis, "mail", &tiers).unwrap();
            assert_eq!(way.address(&names, "mail"), (exchange.to_owned(), key));
            assert_eq!(way.wait(), wait, "{millis}");
        }
    }

    #[test]
    fn a_wait_beyond_the_horizon_is_an_error_that_names_it() {
        assert!(Way::new(HORIZON, "mail", &Tiers::new()).is_ok());
        for millis in [HORIZON + 1, u64::MAX] {
            let error = Way::new(millis, "mail", &Tiers::new()).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains("3650d"), "{error}");
        }
    }
}
