//! The figures of queues: by AMQP where the node answers, and by the management API in an alarm.

use std::sync::Arc;

use futures_util::join;

use super::counts;
use super::roster::Roster;
use crate::engine::{Answers, Ask, Counts, Figure, Part, QueueNames, Reply};
use crate::error::Result;
use crate::rabbitmq::admin::control::Control;
use crate::rabbitmq::admin::doctor::Doctor;
use crate::rabbitmq::connection::agreement::Agreement;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::topology::memory::Declared;

/// Why there may be other queues without a management API.
const NOT_LISTED: &str = "AMQP cannot list queues: set the URL of the management API \
     (`--management`, `ClientBuilder::management` or JOBQ_MANAGEMENT_URL), or name the queues";

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
        let places = counts::places(self.known.part(queue), self.doctor.listed(queue).await);
        let counting = counts::parts(self.broker, self.known, queue, places);
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

    /// How many jobs are in the delay levels.
    pub(crate) async fn in_levels(&self) -> Result<Figure<u64>> {
        self.broker.check_open()?;
        if !self.is_agreed().await {
            return Ok(Figure::unknown(WITHOUT));
        }
        let listed = self.doctor.listed_levels().await;
        let counting = async {
            match counts::levels(self.broker, self.known, listed).await? {
                Figure::Known(levels) => counts::in_levels(self.broker, levels).await,
                Figure::Unknown(why) => Ok(Figure::Unknown(why)),
            }
        };
        match self.broker.unless_blocked("counting the jobs in the delay levels", counting).await {
            Err(error) if self.broker.publishing().is_blocked() => {
                self.doctor.counted_in_levels().await.map(Figure::Known).ok_or(error)
            }
            counted => counted,
        }
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
        let asking = Box::pin(self.control.ask(ask, |queue| self.doctor.lists_solo(queue)));
        let agreeing = async { !counts || self.is_agreed().await };
        let (answers, is_agreed) = join!(asking, agreeing);
        let mut answers = answers?;
        for (_, reply) in &answers.replies {
            if let Reply::Report(report) = reply {
                self.roster.add(report.queues.iter().map(|queue| &queue.queue));
            }
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
