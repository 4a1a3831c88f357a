//! Enqueueing: each job's way into its queue, and its message.

use super::Core;
use super::levels::End;
use super::wanted::Wanted;
use super::way::Way;
use super::wire::{self, Message};
use crate::error::Result;
use crate::job::Envelope;
use crate::period;

impl Core {
    /// Declares what this way leads through and may not be there yet.
    pub(super) async fn prepare(&self, way: &Way) -> Result<()> {
        match way {
            Way::Levels(_) => self.declare(Wanted::levels()).await,
            Way::Now | Way::Tier(_) => Ok(()),
        }
    }

    /// The way of a job into its queue.
    fn way(&self, job: &Envelope) -> Result<Way> {
        if job.delay.is_zero() {
            return Ok(Way::Now);
        }
        let tiers = self.declared.tiers(&job.queue).unwrap_or_default();
        Way::new(period::millis(job.delay), End::Queue(&job.queue), &tiers)
    }

    /// Takes out the only one of these jobs and publishes it, if nothing is to be made first.
    pub(super) fn publish_at_once(
        &self,
        jobs: &mut Vec<Envelope>,
    ) -> Option<impl Future<Output = Result<()>> + Send> {
        let [job] = jobs.as_slice() else {
            return None;
        };
        let way = self.way(job).ok().filter(|way| !matches!(way, Way::Levels(_)))?;
        let message = wire::encode(&self.names, jobs.pop()?, &way);
        Some(self.publisher.publish(message))
    }

    /// The messages that enqueue these jobs, in their order, each made when it is asked for.
    pub(super) async fn messages(
        &self,
        jobs: Vec<Envelope>,
    ) -> impl IntoIterator<Item = Result<Message>, IntoIter: Send> {
        let in_levels = |way: &Way| matches!(way, Way::Levels(_));
        let first = jobs.iter().filter_map(|job| self.way(job).ok()).find(in_levels);
        let prepared = match first {
            Some(way) => self.prepare(&way).await,
            None => Ok(()),
        };
        jobs.into_iter().map(move |job| {
            let way = self.way(&job)?;
            match &prepared {
                Err(error) if in_levels(&way) => Err(error.clone()),
                _ => wire::encode(&self.names, job, &way),
            }
        })
    }
}
