//! Enqueueing: each job's way into its queue, and its message.

use super::Core;
use super::wanted::Wanted;
use super::way::Way;
use super::wire;
use crate::engine::NotPushed;
use crate::error::Result;
use crate::job::Envelope;

impl Core {
    /// Declares what this way leads through and may not be there yet.
    pub(super) async fn prepare(&self, way: &Way) -> Result<()> {
        match way {
            Way::Levels(_) => self.declare(Wanted::levels()).await,
            Way::Now(_) | Way::Tier(_) => Ok(()),
        }
    }

    /// The way of a job into its queue.
    fn way(&self, job: &Envelope) -> Result<Way> {
        Way::of(job, &self.declared.tiers(&job.queue).unwrap_or_default())
    }

    /// Publishes a job, unless something is to be made first.
    pub(super) fn push_at_once(
        &self,
        job: Envelope,
    ) -> std::result::Result<impl Future<Output = Result<()>> + Send + use<>, Box<Envelope>> {
        let message = match self.way(&job) {
            Ok(Way::Levels(_)) => return Err(Box::new(job)),
            Ok(way) => wire::encode(&self.names, job, &way),
            Err(error) => Err(error),
        };
        Ok(self.publisher.publish(message))
    }

    /// Publishes a job through the levels.
    pub(super) async fn push_later(&self, job: Box<Envelope>) -> Result<()> {
        let way = self.way(&job)?;
        self.prepare(&way).await?;
        self.publisher.publish(wire::encode(&self.names, *job, &way)).await
    }

    /// Publishes jobs, each made a message when it can be sent.
    pub(super) async fn push_all(
        &self,
        jobs: &mut (dyn Iterator<Item = Envelope> + Send),
    ) -> Vec<NotPushed> {
        let mut batch = self.publisher.batch();
        let mut levels = None;
        for job in jobs {
            let message = match self.way(&job) {
                Ok(way @ Way::Levels(_)) => {
                    if levels.is_none() {
                        levels = Some(self.prepare(&way).await);
                    }
                    let prepared = levels.clone().unwrap_or(Ok(()));
                    prepared.and_then(|()| wire::encode(&self.names, job, &way))
                }
                Ok(way) => wire::encode(&self.names, job, &way),
                Err(error) => Err(error),
            };
            batch.send(message).await;
        }
        batch.finish().await
    }
}
