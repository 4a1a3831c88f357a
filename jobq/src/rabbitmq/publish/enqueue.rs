//! Enqueueing: the route of each job into its queue, and its message.

use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::publisher::Publisher;
use crate::clock::Clock;
use crate::engine::NotPushed;
use crate::error::{Error, Result};
use crate::job::Envelope;
use crate::rabbitmq::message::properties;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::route::Destination;
use crate::rabbitmq::topology::routing::Routing;
use crate::rabbitmq::topology::wait::Wait;
use crate::traces;

/// How long a client may have declared the queue of a job that it has just enqueued.
const LONGEST_DECLARATION: Duration = Duration::from_secs(600);

/// Publishes jobs, each by the route into its queue.
#[derive(Debug)]
pub(crate) struct Enqueuer {
    declarer: Arc<Declarer>,
    publisher: Arc<Publisher>,
    clock: Clock,
}

/// A job that needs so many levels, which are not looked for yet.
pub(crate) struct Later {
    job: Envelope,
    to: Destination,
    levels: u32,
}

impl Enqueuer {
    pub(crate) fn new(declarer: Arc<Declarer>, publisher: Arc<Publisher>, clock: Clock) -> Self {
        Self { declarer, publisher, clock }
    }

    /// The way of a job into its queue, and how many levels it needs.
    fn destination(&self, job: &Envelope) -> Result<(Destination, u32)> {
        let (known, end) = (self.declarer.known(), End::Queue(&job.queue));
        if !job.delay.is_zero() {
            let wait = Wait::new(known, (job.delay, self.left(job)), end, job.retry_wait)?;
            let levels = wait.levels();
            return Ok((wait.into(), levels));
        }
        if let Some(route) = known.route(&job.queue, job.retry_wait) {
            return Ok((route.into(), 0));
        }
        let routing = Routing::of(job, &known.tiers(&job.queue).unwrap_or_default())?;
        Ok((routing.route(known.names(), end)?.into(), 0))
    }

    /// The part of a job's delay that is left. Declaring its queue takes time.
    fn left(&self, job: &Envelope) -> Duration {
        match self.clock.now().duration_since(job.enqueued_at) {
            Ok(gone) if gone < LONGEST_DECLARATION => job.delay.saturating_sub(gone),
            // It was not enqueued just now.
            _ => job.delay,
        }
    }

    /// Publishes a job, unless something must be declared first.
    pub(crate) fn push_at_once(
        &self,
        job: Envelope,
    ) -> std::result::Result<impl Future<Output = Result<()>> + Send + use<>, Box<Later>> {
        let message = match self.destination(&job) {
            Ok((to, levels @ 1..)) => return Err(Box::new(Later { job, to, levels })),
            Ok((to, 0)) => {
                traces::sent_with_key(to.route().key.as_str());
                properties::encode(job, to)
            }
            Err(error) => Err(error),
        };
        Ok(self.publisher.publish(message))
    }

    /// Publishes a job through the levels.
    pub(crate) async fn push_later(&self, later: Box<Later>) -> Result<()> {
        let Later { job, to, levels } = *later;
        self.declarer.declare(Wanted::levels(levels)).await?;
        traces::sent_with_key(to.route().key.as_str());
        self.publisher.publish(properties::encode(job, to)).await
    }

    /// Publishes jobs. Each is encoded when it can be sent.
    pub(crate) async fn push_all(
        &self,
        jobs: &mut (dyn Iterator<Item = Envelope> + Send),
    ) -> Vec<NotPushed> {
        let mut batch = Batch::new(&self.publisher);
        let mut refused = None;
        for (index, job) in jobs.enumerate() {
            let to = match self.destination(&job) {
                Ok((to, levels)) => self.levels(levels, &mut refused).await.map(|()| to),
                Err(error) => Err(error),
            };
            if let (0, Ok(to)) = (index, &to) {
                traces::sent_with_key(to.route().key.as_str());
            }
            batch.send(to.and_then(|to| properties::encode(job, to))).await;
        }
        batch.finish().await
    }

    /// Declares so many levels, unless declaring as many or fewer was refused before.
    async fn levels(&self, levels: u32, refused: &mut Option<(u32, Error)>) -> Result<()> {
        if levels == 0 {
            return Ok(());
        }
        if let Some((fewer, error)) = &*refused
            && levels >= *fewer
        {
            return Err(error.clone());
        }
        let declared = self.declarer.declare(Wanted::levels(levels)).await;
        declared.inspect_err(|error| *refused = Some((levels, error.clone())))
    }
}
