//! Enqueueing: the route of each job into its queue, and its message.

use std::sync::Arc;

use super::batch::Batch;
use super::publisher::Publisher;
use crate::engine::NotPushed;
use crate::error::Result;
use crate::job::Envelope;
use crate::rabbitmq::message::properties;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::route::Route;
use crate::rabbitmq::topology::routing::Routing;
use crate::traces;

/// Publishes jobs, each by the route into its queue.
#[derive(Debug)]
pub(crate) struct Enqueuer {
    declarer: Arc<Declarer>,
    publisher: Arc<Publisher>,
}

impl Enqueuer {
    pub(crate) fn new(declarer: Arc<Declarer>, publisher: Arc<Publisher>) -> Self {
        Self { declarer, publisher }
    }

    /// The route of a job into its queue, and whether it leads through the levels.
    fn route(&self, job: &Envelope) -> Result<(Arc<Route>, bool)> {
        let known = self.declarer.known();
        if job.delay.is_zero()
            && let Some(route) = known.route(&job.queue, job.retry_wait)
        {
            return Ok((route, false));
        }
        let routing = Routing::of(job, &known.tiers(&job.queue).unwrap_or_default())?;
        let route = routing.route(known.names(), End::Queue(&job.queue))?;
        Ok((Arc::new(route), matches!(routing, Routing::Levels(_))))
    }

    /// Publishes a job, unless something must be declared first.
    pub(crate) fn push_at_once(
        &self,
        job: Envelope,
    ) -> std::result::Result<impl Future<Output = Result<()>> + Send + use<>, Box<Envelope>> {
        let message = match self.route(&job) {
            Ok((_, true)) => return Err(Box::new(job)),
            Ok((route, false)) => {
                traces::sent_with_key(route.key.as_str());
                properties::encode(job, route)
            }
            Err(error) => Err(error),
        };
        Ok(self.publisher.publish(message))
    }

    /// Publishes a job through the levels.
    pub(crate) async fn push_later(&self, job: Box<Envelope>) -> Result<()> {
        let (route, _) = self.route(&job)?;
        traces::sent_with_key(route.key.as_str());
        self.declarer.declare(Wanted::levels()).await?;
        self.publisher.publish(properties::encode(*job, route)).await
    }

    /// Publishes jobs. Each is encoded when it can be sent.
    pub(crate) async fn push_all(
        &self,
        jobs: &mut (dyn Iterator<Item = Envelope> + Send),
    ) -> Vec<NotPushed> {
        let mut batch = Batch::new(&self.publisher);
        let mut levels = None;
        for (index, job) in jobs.enumerate() {
            let route = self.route(&job);
            if let (0, Ok((route, _))) = (index, &route) {
                traces::sent_with_key(route.key.as_str());
            }
            let message = match route {
                Ok((route, true)) => {
                    if levels.is_none() {
                        levels = Some(self.declarer.declare(Wanted::levels()).await);
                    }
                    let prepared = levels.clone().unwrap_or(Ok(()));
                    prepared.and_then(|()| properties::encode(job, route))
                }
                Ok((route, false)) => properties::encode(job, route),
                Err(error) => Err(error),
            };
            batch.send(message).await;
        }
        batch.finish().await
    }
}
