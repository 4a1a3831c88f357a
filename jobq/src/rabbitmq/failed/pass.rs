//! One pass through the failed jobs of a queue: each is taken once, the oldest first.
//!
//! AMQP has no way to look into a queue: its messages are taken, unacknowledged, and given
//! back. What is consumed goes back in its order when the channel ends, on every version, and
//! comes many times as fast as what is got one by one (measured: 100,000 in 1 to 2 s, against
//! 400 to 600 a second; what is got, or given back by a `nack`, changes its place).

use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::topology::passive::BUSY;
use crate::rabbitmq::topology::passive::inspect;
use crate::rabbitmq::values::short;

/// How many bytes may be on their way here.
const ROOM: usize = 64 * 1024 * 1024;
/// What a message takes beside its payload, well counted.
const OVERHEAD: usize = 1_024;
/// The first consumer takes so many at the most, since their size is not known yet. As many are
/// removed together: it gets others for them.
pub(crate) const FIRST: usize = 64;
/// How many a pass takes, and how many bytes of them, though fewer are wanted: what goes back
/// joins the end of what went back before, so that the order stays where all are taken.
const ALL: u64 = 100_000;
const ALL_SIZE: usize = 256 * 1024 * 1024;
/// How long nothing may come before it is asked whether there is anything left.
const IDLE: Duration = Duration::from_millis(500);
/// How long the broker may take to apply acknowledgements before the channel ends: it forgets
/// them otherwise where there are many (`quorum_commands_soft_limit`).
const APPLIED: Duration = Duration::from_millis(100);

/// A pass. What was taken and not removed goes back when it [ends](Self::end) or is dropped.
pub(crate) struct Pass<'u> {
    up: &'u Up,
    queue: ShortString,
    channel: Channel,
    /// They live as long as the channel: what a cancelled one held may not go back in its order.
    consumers: Vec<Consumer>,
    /// How many more the last consumer gets before it has as many as it may hold.
    window: usize,
    /// How many of the jobs that there were at the start are left to take.
    left: u64,
    /// How many were taken.
    taken: u64,
    /// The bytes that they had.
    size: usize,
    /// The most bytes that one has had so far.
    largest: usize,
    has_removed: bool,
}

impl<'u> Pass<'u> {
    /// Begins a pass through a queue that nobody else takes from.
    pub(crate) async fn begin(up: &'u Up, queue: &str) -> Result<Self> {
        let mut channel = open(up).await?;
        let left = count(up, &mut channel, queue).await?.unwrap_or(0);
        Ok(Self {
            up,
            queue: short(queue)?,
            channel,
            consumers: Vec::new(),
            window: 0,
            left,
            taken: 0,
            size: 0,
            largest: 0,
            has_removed: false,
        })
    }

    /// The next of the jobs that there were at the start; at most `wanted` are still asked for.
    pub(crate) async fn next(&mut self, wanted: usize) -> Result<Option<Delivery>> {
        while self.left > 0 && wanted > 0 {
            if self.window == 0 {
                self.consume(wanted).await?;
            }
            let Some(consumer) = self.consumers.last_mut() else {
                return Ok(None);
            };
            match timeout(IDLE, consumer.next()).await {
                Ok(Some(Ok(delivery))) => {
                    self.left -= 1;
                    self.window -= 1;
                    self.taken += 1;
                    self.size += delivery.data.len();
                    self.largest = self.largest.max(delivery.data.len());
                    return Ok(Some(delivery));
                }
                Ok(Some(Err(error))) => return Err(failure("taking failed jobs", error)),
                Ok(None) => {
                    let text = "taking failed jobs failed: the broker ended the consumer";
                    return Err(Error::new(ErrorKind::Connection, text));
                }
                // Somebody else may have removed some.
                Err(_) if self.is_empty().await? => return Ok(None),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Whether the pass is to go on for the sake of the order alone.
    pub(crate) fn keeps_order(&self) -> bool {
        self.taken < ALL && self.size < ALL_SIZE
    }

    async fn consume(&mut self, wanted: usize) -> Result<()> {
        let window = window(self.largest, wanted.min(usize::try_from(self.left).unwrap_or(wanted)));
        let doing = |error| failure("taking failed jobs", error);
        let qos = self.channel.basic_qos(window, BasicQosOptions::default()).await;
        qos.map_err(doing)?;
        let tag = short(self.consumers.len().to_string())?;
        let (queue, options) = (self.queue.clone(), BasicConsumeOptions::default());
        let consumer = self.channel.basic_consume(queue, tag, options, FieldTable::default()).await;
        self.consumers.push(consumer.map_err(doing)?);
        self.window = window.into();
        Ok(())
    }

    async fn is_empty(&self) -> Result<bool> {
        let mut channel = open(self.up).await?;
        let asked = Instant::now();
        let found = inspect(self.up, &mut channel, self.queue.as_str()).await?;
        let _ = channel.close(200, "asked".into()).await;
        Ok(found.is_none_or(|(ready, _)| ready == 0 && asked.elapsed() < BUSY))
    }

    /// Removes these jobs, in the order in which they were taken: all that were taken since the
    /// last were removed, where that is so.
    pub(crate) async fn remove(&mut self, tags: &[u64], all: bool) -> Result<()> {
        let (single, prefix) = if all { (&[][..], tags.last()) } else { (tags, None) };
        let options = BasicAckOptions { multiple: false };
        for tag in single {
            let acknowledged = self.channel.basic_ack(*tag, options).await;
            acknowledged.map_err(|error| failure("removing a failed job", error))?;
        }
        if let Some(tag) = prefix {
            let acknowledged = self.channel.basic_ack(*tag, BasicAckOptions { multiple: true });
            acknowledged.await.map_err(|error| failure("removing failed jobs", error))?;
        }
        // The consumer gets others for them.
        self.window += tags.len();
        self.has_removed = true;
        Ok(())
    }

    /// Ends the pass. What was not removed is back in its place then.
    pub(crate) async fn end(self) -> Result<()> {
        if self.has_removed {
            sleep(APPLIED).await;
        }
        let closed = self.channel.close(200, "done".into()).await;
        closed.map_err(|error| failure("giving failed jobs back", error))
    }
}

/// How many messages a consumer may hold, where `wanted` are and none had more bytes than this
/// so far.
fn window(largest: usize, wanted: usize) -> u16 {
    let fitting = if largest == 0 { FIRST } else { ROOM / (largest + OVERHEAD) };
    u16::try_from(fitting.min(wanted).max(1)).unwrap_or(u16::MAX)
}

/// How many messages a queue has that nobody else looks at: what another pass has in hand is
/// not counted by the broker until that ends. `None` where there is no such queue.
///
/// A broker that is too busy to know within 250 ms says 0 (`rabbit_quorum_queue:stat/1`), so a
/// 0 that took so long is asked for again.
pub(crate) async fn count(up: &Up, channel: &mut Channel, queue: &str) -> Result<Option<u64>> {
    loop {
        let asked = Instant::now();
        match inspect(up, channel, queue).await? {
            Some((_, consumers)) if consumers > 0 => sleep(Duration::from_millis(20)).await,
            Some((0, _)) if asked.elapsed() >= BUSY => {}
            found => return Ok(found.map(|(ready, _)| ready)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_holds_what_fits_and_is_wanted() {
        let table = [
            (0, 3, 3),
            (0, 100_000, 64),
            (500, 100_000, 44_034),
            (1, 100_000, 65_472),
            (1, 65_473, 65_472),
            (1024 * 1024, 100_000, 63),
            (usize::MAX / 2, 100_000, 1),
            (500, 0, 1),
        ];
        for (largest, wanted, expected) in table {
            assert_eq!(window(largest, wanted), expected, "{largest} {wanted}");
        }
    }
}
