//! The way of a job or an event: at once, through a tier of its queue, or through the
//! levels.
//! Pure.

use std::time::Duration;

use super::levels::{self, End, Entry, HORIZON};
use super::names::Names;
use super::wanted::Tiers;
use crate::error::{Error, Result};
use crate::period;

/// How a job gets into its queue, or an event to its subscribers.
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
    /// The way to this end, where its queue has these tiers.
    ///
    /// # Errors
    ///
    /// A wait that is longer than what the levels hold.
    pub(crate) fn new(millis: u64, end: End<'_>, tiers: &Tiers) -> Result<Self> {
        if millis == 0 {
            return Ok(Self::Now);
        }
        if tiers.contains(&millis) {
            return Ok(Self::Tier(millis));
        }
        levels::entry(millis, end).map(Self::Levels).ok_or_else(|| {
            let text = |millis| period::format(Duration::from_millis(millis));
            let (asked, horizon) = (text(millis), text(HORIZON));
            Error::invalid(format!(
                "a delay of {asked} is longer than {horizon}, the longest that jobq has \
                 RabbitMQ hold; enqueue it later"
            ))
        })
    }

    /// The exchange and the routing key.
    pub(crate) fn address(&self, names: &Names, end: End<'_>) -> (String, String) {
        let exchange = match (self, end) {
            (Self::Levels(entry), _) => return (names.level(entry.level), entry.key.clone()),
            (Self::Now, End::Queue(_)) => names.jobs(),
            (Self::Now, End::Topic(_)) => names.events(),
            (Self::Tier(_), end) => names.retry(end.text()),
        };
        (exchange, end.text().to_owned())
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

    const MAIL: End<'_> = End::Queue("mail");

    #[test]
    fn every_wait_has_a_way() {
        let names = Names::new("jobq");
        let tiers: Tiers = [1_000, 30_000, HORIZON].into();
        let zeros = "0.0.0.0.0.0";
        let table = [
            (0, "jobq", "mail".to_owned(), None),
            (1, "jobq.level.0", format!("{zeros}.0.1.q.mail"), None),
            (1_000, "jobq:mail@retry", "mail".to_owned(), Some(1_000)),
            (1_601, "jobq.level.1", format!("{zeros}.1.1.q.mail"), None),
            (30_000, "jobq:mail@retry", "mail".to_owned(), Some(30_000)),
            (HORIZON - 1, "jobq.level.7", "11.11.15.8.1.14.0.0.q.mail".to_owned(), None),
            (HORIZON, "jobq:mail@retry", "mail".to_owned(), Some(HORIZON)),
        ];
        for (millis, exchange, key, wait) in table {
            let way = Way::new(millis, MAIL, &tiers).unwrap();
            assert_eq!(way.address(&names, MAIL), (exchange.to_owned(), key));
            assert_eq!(way.wait(), wait, "{millis}");
        }
    }

    #[test]
    fn an_event_goes_to_its_topic() {
        let names = Names::new("jobq");
        let end = End::Topic("user.created");
        let table = [
            (0, "jobq.events", "user.created"),
            (700, "jobq.level.0", "0.0.0.0.0.0.0.7.e.user.created"),
        ];
        for (millis, exchange, key) in table {
            let way = Way::new(millis, end, &Tiers::new()).unwrap();
            assert_eq!(way.address(&names, end), (exchange.to_owned(), key.to_owned()));
        }
    }

    #[test]
    fn a_wait_beyond_the_horizon_is_an_error_that_names_it() {
        assert!(Way::new(HORIZON, MAIL, &Tiers::new()).is_ok());
        for millis in [HORIZON + 1, u64::MAX] {
            let error = Way::new(millis, MAIL, &Tiers::new()).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains("3650d"), "{error}");
        }
    }
}
