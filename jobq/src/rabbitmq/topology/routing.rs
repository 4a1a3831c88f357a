//! The routing of a job or an event: at once, through a tier of its queue, or through the levels.
//! Pure.

use std::fmt;
use std::time::Duration;

use lapin::types::ShortString;

use super::levels::{self, End, Entry, HORIZON, UNIT};
use super::names::Names;
use super::requirements::Tiers;
use super::routing_key;
use crate::error::{Error, Result};
use crate::job::{Envelope, check_name, check_topic};
use crate::period;
use crate::rabbitmq::values::{fits, short};

/// An exchange and a routing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
}

impl Route {
    /// # Errors
    ///
    /// A name or a key that is too long for AMQP.
    pub(crate) fn new(exchange: String, key: String) -> Result<Self> {
        Ok(Self { exchange: short(exchange)?, key: short(key)? })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange `{}` with the key `{}`", self.exchange, self.key)
    }
}

/// How a job reaches its queue, or an event its subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Routing {
    /// At once, with the tier of its first retry, if there is one.
    Now(Option<u64>),
    /// Through the queue's tier of this wait, in milliseconds.
    Tier(u64),
    /// Through the levels.
    Levels(Entry),
}

impl Routing {
    /// The routing to this destination, whose queue has these tiers.
    ///
    /// # Errors
    ///
    /// A wait beyond the limit of the levels.
    pub(crate) fn new(millis: u64, end: End<'_>, tiers: &Tiers) -> Result<Self> {
        if millis == 0 {
            return Ok(Self::Now(None));
        }
        if tiers.contains(&millis) {
            return Ok(Self::Tier(millis));
        }
        levels::entry(millis, end).map(Self::Levels).ok_or_else(|| {
            let text = |millis| period::format(Duration::from_millis(millis));
            let (asked, horizon) = (text(millis), text(HORIZON));
            Error::invalid(format!(
                "a delay of {asked} exceeds {horizon}, the longest delay that jobq supports on \
                 RabbitMQ; enqueue the job later"
            ))
        })
    }

    /// The routing of a message of whose wait a part has gone by: `asked` and `left`, where so many
    /// levels are declared. A message that is due already goes to its queue, with the tier of its
    /// first retry. It is never early: where no level is declared, it takes the tier of the wait
    /// that was asked for.
    pub(crate) fn of_rest(
        (asked, left): (u64, u64),
        end: End<'_>,
        tiers: &Tiers,
        levels: u32,
        retry: Option<u64>,
    ) -> Self {
        let has_tier = tiers.contains(&asked);
        if left == 0 {
            return Self::Now(retry);
        }
        // As exact as the levels, or late by a hundredth of a long wait: a retry through the tier is
        // one nack.
        if has_tier && left + UNIT.max(asked / 100) > asked {
            return Self::Tier(asked);
        }
        match levels::entry(left.min(HORIZON), end) {
            Some(entry) if entry.level < levels || !has_tier => Self::Levels(entry),
            _ => Self::Tier(asked),
        }
    }

    /// The routing of a job into its queue, which has these tiers.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn of(job: &Envelope, tiers: &Tiers) -> Result<Self> {
        let retry = || job.retry_wait.map(period::millis).filter(|millis| tiers.contains(millis));
        let lane = routing_key::lane(&job.queue, job.priority());
        match Self::new(period::millis(job.delay), End::Queue(&lane), tiers)? {
            Self::Now(_) => Ok(Self::Now(retry())),
            later => Ok(later),
        }
    }

    /// The route to this destination. A tier in the key holds for the retries as well.
    ///
    /// # Errors
    ///
    /// An invalid name of a queue or a topic.
    pub(crate) fn route(&self, names: &Names, end: End<'_>) -> Result<Route> {
        match end {
            End::Queue(lane) => check_name("queue", routing_key::read(lane).queue)?,
            End::Topic(topic) => check_topic(topic)?,
        }
        let (exchange, key) = self.address(names, end);
        Route::new(exchange, key)
    }

    /// [`route`](Self::route), for a destination and a wait that were checked.
    pub(crate) fn short_route(&self, names: &Names, end: End<'_>) -> Route {
        let (exchange, key) = self.address(names, end);
        Route { exchange: fits(exchange), key: fits(key) }
    }

    fn address(&self, names: &Names, end: End<'_>) -> (String, String) {
        match (self, end) {
            (Self::Levels(entry), _) => (names.level(entry.level), entry.key.clone()),
            (Self::Now(retry), End::Queue(lane)) => {
                (names.jobs(), routing_key::write(lane, *retry))
            }
            (Self::Now(_), End::Topic(topic)) => (names.events(), topic.to_owned()),
            (Self::Tier(millis), end) => {
                (names.retry(), routing_key::write(end.text(), Some(*millis)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const MAIL: End<'_> = End::Queue("mail");

    #[test]
    fn every_wait_has_a_routing() {
        let names = Names::new("jobq");
        let tiers: Tiers = [1_000, 30_000, HORIZON].into();
        let zeros = "0.0.0.0.0.0";
        let table = [
            (0, "jobq", "mail".to_owned()),
            (1, "jobq.level.0", format!("{zeros}.0.1.q.mail")),
            (1_000, "jobq.retry", "mail@1000".to_owned()),
            (1_601, "jobq.level.1", format!("{zeros}.1.1.q.mail")),
            (30_000, "jobq.retry", "mail@30000".to_owned()),
            (HORIZON - 1, "jobq.level.7", "11.11.15.8.1.14.0.0.q.mail".to_owned()),
            (HORIZON, "jobq.retry", format!("mail@{HORIZON}")),
        ];
        for (millis, exchange, key) in table {
            let routing = Routing::new(millis, MAIL, &tiers).unwrap();
            assert_eq!(routing.address(&names, MAIL), (exchange.to_owned(), key));
        }
    }

    #[test]
    fn what_is_left_of_a_wait_decides() {
        let names = Names::new("jobq");
        let tiers: Tiers = [6_000, 30_000].into();
        let zeros = "0.0.0.0.0.0";
        // Asked, left, declared levels.
        let table = [
            (6_000, 6_000, 0, "mail@6000".to_owned()),
            (6_000, 5_901, 8, "mail@6000".to_owned()),
            (6_000, 5_900, 8, format!("{zeros}.3.11.q.mail")),
            (6_000, 5_900, 2, format!("{zeros}.3.11.q.mail")),
            // Rather late than early, and than never.
            (6_000, 5_900, 1, "mail@6000".to_owned()),
            (6_000, 1_500, 1, format!("{zeros}.0.15.q.mail")),
            (6_000, 1, 0, "mail@6000".to_owned()),
            (6_000, 0, 8, "mail@30000".to_owned()),
            (30_000, 29_701, 8, "mail@30000".to_owned()),
            (30_000, 29_700, 8, "0.0.0.0.0.1.2.9.q.mail".to_owned()),
            (7_000, 6_000, 8, format!("{zeros}.3.12.q.mail")),
            // What publishes it learns that there is none.
            (7_000, 6_000, 0, format!("{zeros}.3.12.q.mail")),
            (7_000, 0, 0, "mail@30000".to_owned()),
        ];
        for (asked, left, levels, key) in table {
            let routing = Routing::of_rest((asked, left), MAIL, &tiers, levels, Some(30_000));
            let route = routing.short_route(&names, MAIL);
            assert_eq!(route.key.as_str(), key, "{asked} {left} {levels}");
        }
        let event = Routing::of_rest((7_000, 0), End::Topic("a.b"), &Tiers::new(), 8, None);
        let route = event.short_route(&names, End::Topic("a.b"));
        assert_eq!((route.exchange.as_str(), route.key.as_str()), ("jobq.events", "a.b"));
    }

    #[test]
    fn a_job_names_the_tier_of_its_retry_where_there_is_one() {
        let (names, tiers) = (Names::new("jobq"), [1_000, 30_000].into());
        let ms = Duration::from_millis;
        let table = [
            (ms(0), Some(ms(30_000)), "mail@30000"),
            (ms(0), Some(ms(17)), "mail"),
            (ms(0), Some(ms(0)), "mail"),
            (ms(0), None, "mail"),
            (ms(1_000), Some(ms(30_000)), "mail@1000"),
            (ms(100), Some(ms(30_000)), "0.0.0.0.0.0.0.1.q.mail"),
        ];
        for (delay, retry_wait, key) in table {
            let job = Envelope {
                enqueued_at: SystemTime::UNIX_EPOCH,
                delay,
                retry_wait,
                ..Envelope::new("mail", Vec::new())
            };
            let routing = Routing::of(&job, &tiers).unwrap();
            assert_eq!(routing.address(&names, MAIL).1, key, "{delay:?} {retry_wait:?}");
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
            let routing = Routing::new(millis, end, &Tiers::new()).unwrap();
            assert_eq!(routing.address(&names, end), (exchange.to_owned(), key.to_owned()));
        }
    }

    #[test]
    fn a_wait_beyond_the_horizon_is_an_error_that_names_it() {
        assert!(Routing::new(HORIZON, MAIL, &Tiers::new()).is_ok());
        for millis in [HORIZON + 1, u64::MAX] {
            let error = Routing::new(millis, MAIL, &Tiers::new()).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains("3650d"), "{error}");
        }
    }
}
