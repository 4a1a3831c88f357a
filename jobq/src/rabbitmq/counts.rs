//! The number of jobs in a queue, as far as the broker reports it.

use lapin::Channel;

use crate::engine::{Counts, Read};
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::failed::pass;
use crate::rabbitmq::topology::declared::Declared;
use crate::rabbitmq::topology::passive::Absent;

/// Counts the jobs of a queue.
pub(crate) async fn counts(
    broker: &Broker,
    known: &Declared,
    absent: &Absent,
    queue: &str,
) -> Result<Counts> {
    let up = broker.up().await?;
    let mut channel = open(&up).await?;
    let names = known.names();
    let mut waiting = 0;
    let tiers = known.tiers(queue);
    if let Some(tiers) = &tiers {
        let tiers = tiers.iter().map(|millis| names.tier(queue, *millis));
        for place in tiers.chain([names.due(queue)]) {
            waiting += absent.messages_in(&up, &mut channel, &place).await?.unwrap_or(0);
        }
    }
    let work = absent.messages_in(&up, &mut channel, &names.work(queue)).await?;
    let mut ready = work.unwrap_or(0);
    // Only pools declare it, and looking for a missing one costs a channel number.
    if known.part(queue).is_some_and(|wanted| wanted.solo.contains(queue)) {
        ready += absent.messages_in(&up, &mut channel, &names.solo(queue)).await?.unwrap_or(0);
    }
    // A missing queue has no waiting jobs.
    let is_known = tiers.is_some() || work.is_none();
    let failed = failed_in(&up, &mut channel, absent, &names.failed(queue)).await?;
    let mut counts = Counts::new(ready, waiting, failed);
    if !is_known {
        counts.waiting = Read::unknown(
            "this client has declared no job of the queue and does not know its tiers",
        );
    }
    Ok(counts)
}

/// The number of failed jobs. The broker does not count those that another client lists, so this
/// waits until that ends.
async fn failed_in(up: &Up, channel: &mut Channel, absent: &Absent, queue: &str) -> Result<u64> {
    match absent.messages_in(up, channel, queue).await? {
        Some(_) => Ok(pass::count(up, channel, queue).await?.unwrap_or(0)),
        None => Ok(0),
    }
}
