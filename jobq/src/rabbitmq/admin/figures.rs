//! The figures of queues: by AMQP where the node answers, and by the management API in an alarm.
//!
//! By AMQP, the jobs of a queue are counted in each of its parts, by a passive declaration.

use std::sync::Arc;
use std::time::Duration;

use futures_util::join;
use tokio::time::{Instant, sleep};

use super::roster::Roster;
use crate::engine::{Answers, Ask, Counts, Figure, Part, Place, QueueNames};
use crate::error::Result;
use crate::job::Priority;
use crate::rabbitmq::admin::control::Control;
use crate::rabbitmq::admin::doctor::{Delayed, Doctor};
use crate::rabbitmq::connection::agreement::Agreement;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::topology::lookup::{self, ready_in_all};
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing_key;

/// How long a look at failed jobs by another client is waited for.
const LOOK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Why there may be other queues without a management API.
const NOT_LISTED: &str = "AMQP cannot list queues: set the URL of the management API \
     (`--management`, `ClientBuilder::management` or JOBQ_MANAGEMENT_URL), or name the queues";

/// Why the parts of a queue are unknown that this client has not declared.
const UNLISTED: &str = "this client has not declared the queue, and the management API does not \
     list it: the queue is new, or the API's user may not see it";

/// Why nothing is known where the node answers, but confirms nothing.
const WITHOUT: &str = "the broker's node confirms no messages: it may be overloaded, or most nodes \
     of its cluster may be down (start them)";

/// The reader of the figures.
#[derive(Debug)]
pub(crate) struct Figures<'e> {
    pub(crate) broker: &'e Broker,
    pub(crate) known: &'e Declared,
    pub(crate) doctor: &'e Doctor,
    pub(crate) control: &'e Arc<Control>,
    pub(crate) roster: &'e Roster,
    pub(crate) agreement: &'e Agreement,
}

impl Figures<'_> {
    /// The numbers of jobs of a queue.
    pub(crate) async fn counts(&self, queue: &str) -> Result<Counts> {
        Ok(Counts::from_parts(&self.parts(queue).await?))
    }

    /// Where the jobs of a queue are.
    pub(crate) async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        self.broker.check_open()?;
        if !self.is_agreed().await {
            return Ok(Counts::unknown(WITHOUT).into_parts());
        }
        let listed = self.doctor.listed(queue).await;
        let listed_priorities = match &listed {
            Figure::Known(Some(listed)) => Some(listed.priorities.contains(queue)),
            _ => None,
        };
        let places = places(self.known.part(queue), listed);
        let delayed = self.doctor.delayed(queue).await;
        let counting = self.count(queue, (places, listed_priorities), delayed);
        let doing = format!("counting the jobs of queue `{queue}`");
        let parts = match self.broker.unless_blocked(&doing, counting).await {
            Err(error) if self.broker.publishing().is_blocked() => {
                return self.doctor.counted(queue).await.ok_or(error);
            }
            counted => counted?,
        };
        self.roster.looked(queue, !parts.is_empty());
        Ok(parts)
    }

    /// Counts the jobs of a queue in these places, beside those that are delayed.
    async fn count(
        &self,
        queue: &str,
        (places, listed_priorities): (Figure<Wanted>, Option<bool>),
        delayed: Delayed,
    ) -> Result<Vec<Part>> {
        let (names, missing) = (self.known.names(), &self.known.missing_queues);
        let up = self.broker.up().await?;
        let work = missing.figures(&up, &names.work(queue)).await?;
        let (is_missing, work) = (work.is_none(), ready_in(work));
        let mut parts = vec![Part::new(Place::Ready, work)];
        let has_priorities = match listed_priorities {
            Some(listed) => listed || self.known.has_priorities(queue),
            None => !is_missing && self.known.finds_priorities(&up, queue, false).await?,
        };
        for priority in Priority::OTHERS.iter().filter(|_| has_priorities) {
            let lane = routing_key::lane(queue, *priority);
            let ready = missing.figures(&up, &names.work(&lane)).await?;
            parts.push(Part::new(Place::of_due(*priority), ready_in(ready)));
            let due = missing.figures(&up, &names.due(&lane)).await?;
            parts.push(Part::new(Place::Due, ready_in(due)));
        }
        match places {
            Figure::Known(places) => {
                // Only pools declare it, and looking for a missing one costs a channel number.
                if places.solo.contains(queue) {
                    let solo = missing.figures(&up, &names.solo(queue)).await?;
                    parts.push(Part::new(Place::Solo, ready_in(solo)));
                }
                for millis in places.queues.get(queue).iter().flat_map(|tiers| tiers.iter()) {
                    let tier = missing.figures(&up, &names.tier(queue, *millis)).await?;
                    let place = Place::Tier(Duration::from_millis(*millis));
                    parts.push(Part::new(place, ready_in(tier)));
                }
                let due = missing.figures(&up, &names.due(queue)).await?;
                parts.push(Part::new(Place::Due, ready_in(due)));
            }
            Figure::Unknown(_) if is_missing => parts.push(Part::new(Place::Waiting, 0)),
            Figure::Unknown(why) => parts.push(Part::new(Place::Waiting, Figure::Unknown(why))),
        }
        if delayed.jobs > 0 {
            parts.push(Part::new(Place::Waiting, delayed.jobs));
        }
        let failed = self.failed_in(&up, &names.failed(queue)).await?;
        let failed = failed.map(|failed| failed.saturating_add(delayed.failed));
        parts.push(Part::new(Place::Failed, failed));
        if is_missing && Counts::from_parts(&parts).is_empty() {
            parts.clear();
        }
        Ok(parts)
    }

    /// The number of failed jobs. The broker does not count those that another client looks at.
    async fn failed_in(&self, up: &ConnectionEpoch, queue: &str) -> Result<Figure<u64>> {
        let start = Instant::now();
        loop {
            match self.known.missing_queues.figures(up, queue).await? {
                Some(Figure::Known(lookup::Figures { consumers: 1.., .. })) => {}
                figures => return Ok(ready_in(figures)),
            }
            if start.elapsed() >= LOOK {
                return Ok(Figure::unknown("a client is reading the failed jobs"));
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// How many jobs are in the delay levels.
    pub(crate) async fn in_levels(&self) -> Result<Figure<u64>> {
        self.broker.check_open()?;
        if !self.is_agreed().await {
            return Ok(Figure::unknown(WITHOUT));
        }
        let counting = self.count_in_levels(self.doctor.listed_levels().await);
        match self.broker.unless_blocked("counting the jobs in the delay levels", counting).await {
            Err(error) if self.broker.publishing().is_blocked() => {
                self.doctor.counted_in_levels().await.map(Figure::Known).ok_or(error)
            }
            counted => counted,
        }
    }

    /// Counts the jobs in the level queues: those that exist, as far as they are listed, and those
    /// that this client has declared.
    async fn count_in_levels(&self, listed: Figure<Vec<String>>) -> Result<Figure<u64>> {
        let mut levels = self.known.levels();
        match listed {
            Figure::Known(listed) => levels.extend(listed),
            Figure::Unknown(why) if levels.is_empty() => {
                let (up, level) = (self.broker.up().await?, self.known.names().level(0));
                if self.known.missing_queues.has_exchange(&up, &level).await? {
                    return Ok(Figure::Unknown(why));
                }
            }
            Figure::Unknown(_) => {}
        }
        if levels.is_empty() {
            return Ok(Figure::Known(0));
        }
        // The highest level comes first: a job that moves on meanwhile is counted again.
        let levels = levels.into_iter().rev().collect();
        ready_in_all(&*self.broker.up().await?, levels).await
    }

    /// The queues that were seen, and whether these are all.
    pub(crate) async fn queues(&self) -> Result<QueueNames> {
        self.broker.check_open()?;
        self.roster.add(self.known.all().queues.keys());
        let listed = self.doctor.queue_names().await;
        if let Some(Ok(found)) = &listed {
            self.roster.add(found);
        }
        let names = self.roster.names();
        Ok(match listed {
            Some(Ok(_)) => QueueNames::new(names, vec!["client", "management"], true),
            Some(Err(reason)) => {
                tracing::warn!(reason, "could not list the queues through the management API");
                QueueNames::new(names, vec!["client"], false).incomplete(reason)
            }
            None => QueueNames::new(names, vec!["client"], false).incomplete(NOT_LISTED),
        })
    }

    /// Asks pools, whose queues are seen by that. How many consumers are not theirs is unknown where
    /// the node does not know it.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Answers> {
        let counts = ask.pool.is_none() && !ask.queues.is_empty();
        let asking = Box::pin(self.control.ask(ask, |queue| self.doctor.lists(queue)));
        let agreeing = async { !counts || self.is_agreed().await };
        let (answers, is_agreed) = join!(asking, agreeing);
        let mut answers = answers?;
        for report in answers.reports() {
            self.roster.add(report.queues.iter().map(|queue| &queue.queue));
        }
        if !is_agreed {
            answers.unaccounted.values_mut().for_each(|count| *count = Figure::unknown(WITHOUT));
        }
        Ok(answers)
    }

    /// Whether the node has the agreement of its cluster. In an alarm, and without a connection, other
    /// calls say so.
    async fn is_agreed(&self) -> bool {
        let asking = self.agreement.is_given(self.broker);
        let doing = "asking for the agreement of the cluster";
        let asked = self.broker.unless_blocked(doing, asking).await;
        asked.unwrap_or_else(|_| !self.broker.publishing().is_up())
    }
}

/// The tiers of a queue and whether it has a solo queue: those that this client has declared, and
/// those that exist.
fn places(declared: Option<Wanted>, listed: Figure<Option<Wanted>>) -> Figure<Wanted> {
    match (declared, listed) {
        (Some(mut declared), listed) => {
            declared.add(listed.known().cloned().flatten().unwrap_or_default());
            Figure::Known(declared)
        }
        (None, Figure::Known(Some(listed))) => Figure::Known(listed),
        (None, Figure::Known(None)) => Figure::unknown(UNLISTED),
        (None, Figure::Unknown(why)) => Figure::Unknown(why),
    }
}

/// The number of ready messages of a queue. One that does not exist has none.
fn ready_in(figures: Option<Figure<lookup::Figures>>) -> Figure<u64> {
    figures.map_or(Figure::Known(0), |read| read.map(|figures| figures.ready))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueueSpec;

    #[test]
    fn what_a_client_declared_and_what_exists_make_the_parts_of_a_queue() {
        let with = |seconds: &[u64]| {
            let waits = seconds.iter().map(|seconds| Duration::from_secs(*seconds));
            Wanted::queues(&[QueueSpec::new("mail").waits(waits)])
        };
        let solo = || Wanted::queues(&[QueueSpec::new("mail").solo()]);
        let both = |mut one: Wanted, other| {
            one.add(other);
            one
        };
        let table = [
            (None, Figure::unknown("no URL"), Figure::unknown("no URL")),
            (None, Figure::Known(None), Figure::unknown(UNLISTED)),
            (None, Figure::Known(Some(with(&[7]))), Figure::Known(with(&[7]))),
            // Declared by this client, so it exists, whatever the management API says.
            (Some(with(&[7])), Figure::unknown("status 500"), Figure::Known(with(&[7]))),
            (Some(with(&[7])), Figure::Known(None), Figure::Known(with(&[7]))),
            (Some(with(&[7])), Figure::Known(Some(with(&[9]))), Figure::Known(with(&[7, 9]))),
            (
                Some(with(&[7])),
                Figure::Known(Some(solo())),
                Figure::Known(both(with(&[7]), solo())),
            ),
        ];
        for (declared, listed, expected) in table {
            assert_eq!(
                places(declared.clone(), listed.clone()),
                expected,
                "{declared:?} {listed:?}"
            );
        }
    }
}
