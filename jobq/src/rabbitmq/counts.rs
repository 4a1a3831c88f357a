//! How many jobs are in a queue, as far as the broker tells.

use std::sync::PoisonError;
use std::time::Duration;

use lapin::Channel;
use tokio::time::Instant;

use crate::engine::Counts;
use crate::error::Result;
use crate::rabbitmq::Core;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::failed::pass;
use crate::rabbitmq::topology::passive::{BUSY, messages_in};

/// How long a queue that was missing is not looked for again.
const MISSING: Duration = Duration::from_secs(5);
impl Core {
    /// How many messages are ready in a queue, if it exists.
    ///
    /// Every question after a queue that does not exist costs a channel number for the
    /// life of the connection, so one that was missing a moment ago still is.
    ///
    /// A broker that is too busy to know within 250 ms says 0 (`rabbit_quorum_queue:stat/1`),
    /// so a 0 that took so long is asked for again.
    pub(crate) async fn look(
        &self,
        up: &Up,
        channel: &mut Channel,
        queue: &str,
    ) -> Result<Option<u64>> {
        let missing = || self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing().get(queue).is_some_and(|asked| asked.elapsed() < MISSING) {
            return Ok(None);
        }
        loop {
            let asked = Instant::now();
            let count = messages_in(up, channel, queue).await?;
            match count {
                None => {
                    let mut missing = missing();
                    missing.retain(|_, asked| asked.elapsed() < MISSING);
                    missing.insert(queue.to_owned(), asked);
                }
                Some(0) if asked.elapsed() >= BUSY => continue,
                Some(_) => {}
            }
            return Ok(count);
        }
    }

    /// How many failed jobs there are. Those that somebody looks at are not counted by the
    /// broker, so the end of that is waited for.
    async fn count_failed(&self, up: &Up, channel: &mut Channel, queue: &str) -> Result<u64> {
        match self.look(up, channel, queue).await? {
            Some(_) => Ok(pass::count(up, channel, queue).await?.unwrap_or(0)),
            None => Ok(0),
        }
    }

    pub(crate) async fn counts(&self, queue: &str) -> Result<Counts> {
        let up = self.publishing.up().await?;
        let mut channel = open(&up).await?;
        let names = &self.names;
        let mut waiting = 0;
        let tiers = self.declared.tiers(queue);
        if let Some(tiers) = &tiers {
            let tiers = tiers.iter().map(|millis| names.tier(queue, *millis));
            for place in tiers.chain([names.due(queue)]) {
                waiting += self.look(&up, &mut channel, &place).await?.unwrap_or(0);
            }
        }
        let work = self.look(&up, &mut channel, &names.work(queue)).await?;
        let mut ready = work.unwrap_or(0);
        // Only pools declare it, and looking for what does not exist has its price.
        if self.declared.part(queue).is_some_and(|wanted| wanted.solo.contains(queue)) {
            ready += self.look(&up, &mut channel, &names.solo(queue)).await?.unwrap_or(0);
        }
        // Of a queue that is not there nothing waits.
        let is_known = tiers.is_some() || work.is_none();
        let failed = self.count_failed(&up, &mut channel, &names.failed(queue)).await?;
        Ok(Counts { waiting: is_known.then_some(waiting), ..Counts::new(ready, 0, failed) })
    }
}
