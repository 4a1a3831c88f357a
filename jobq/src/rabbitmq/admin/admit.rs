//! Jobs that come from another engine.

use std::sync::Arc;

use crate::engine::{Admission, NotPushed};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, FailedJob};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::message::properties::{self, Changes, Message};
use crate::rabbitmq::publish::{Batch, Enqueuer, Publisher};
use crate::rabbitmq::topology::declarer::{DECLARING, Declarer};
use crate::rabbitmq::topology::destination::{Destination, Wait};
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key;

/// Publishes jobs as they were stored elsewhere.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub(crate) broker: Arc<Broker>,
    pub(crate) declarer: Arc<Declarer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) enqueuer: Arc<Enqueuer>,
}

/// Whether an error is that of all further messages.
fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Closed)
}

impl Arrivals {
    /// Publishes a batch, in its order.
    pub(crate) async fn admit(&self, admissions: Vec<Admission>) -> Vec<NotPushed> {
        let (mut batch, mut away) = (Batch::new(&self.publisher), None);
        for admission in admissions {
            let message = match &away {
                None => self.message(admission).await,
                Some(error) => Err(Error::clone(error)),
            };
            // Nothing else is declared then: each further message would wait as long.
            away = message.as_ref().err().filter(|error| is_away(error)).cloned();
            batch.send(message).await;
        }
        batch.finish().await
    }

    async fn message(&self, admission: Admission) -> Result<Message> {
        match admission {
            Admission::Job(job) => self.of_job(job).await,
            Admission::Solo(job, starts) => self.of_solo(job, starts).await,
            Admission::Failed(job) => self.of_failed(&job),
            Admission::Event(event) => self.enqueuer.event_message(event).await,
        }
    }

    async fn of_job(&self, job: Envelope) -> Result<Message> {
        self.check_declared(&job.queue)?;
        let (known, lane) =
            (self.declarer.known(), routing_key::lane(&job.queue, job.priority()).into_owned());
        // What is left of the wait is known exactly; `jobq-due` may be that of the first attempt.
        let now = self.broker.clock().now();
        let wait =
            Wait::new(known, (job.delay, job.delay), now, End::Queue(&lane), job.retry_wait)?;
        self.broker.patiently(DECLARING, self.declarer.prepare(&wait)).await?;
        let to = Destination::from(wait);
        let changes = Changes::next(job.attempts).wait_until(to.until());
        properties::encode_again(job, to, changes)
    }

    async fn of_solo(&self, job: Envelope, starts: u32) -> Result<Message> {
        let wanted = self.check_declared(&job.queue)?.with_solo();
        self.broker.patiently(DECLARING, self.declarer.declare(wanted)).await?;
        let names = self.declarer.known().names();
        let route = Route::new(names.jobs(), Names::solo_key(&job.queue))?;
        let changes = Changes::solo(job.attempts, starts, None);
        properties::encode_again(job, route, changes)
    }

    fn of_failed(&self, job: &FailedJob) -> Result<Message> {
        self.check_declared(job.queue())?;
        let names = self.declarer.known().names();
        let route = Route::new(names.failed_jobs(), job.queue().to_owned())?;
        let (reason, error) = (job.reason(), job.full_error());
        let changes = Changes::failed(reason, error, job.attempts(), job.failed_at());
        properties::encode_again(job.envelope().clone(), route, changes)
    }

    /// The declaration of a queue. The broker takes jobs of a queue that is not there, as strays.
    fn check_declared(&self, queue: &str) -> Result<Wanted> {
        self.declarer.known().part(queue).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("queue `{queue}` was not declared by this client; declare it first"),
            )
        })
    }
}
