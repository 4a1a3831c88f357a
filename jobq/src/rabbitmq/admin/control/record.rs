//! The record of a pause: who paused the queue, when and why. It is one message in a quorum queue,
//! and decides nothing but whether a pause was lost.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::options::QueuePurgeOptions;
use lapin::{BasicProperties, Channel};
use tokio::time::{Instant, timeout};

use super::Control;
use crate::engine::Pause;
use crate::error::{Error, Result};
use crate::rabbitmq::connection::channel::{Take, ask, ask_on, consume, open};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::publish::confirm::{not_stored, send_alone, stored};
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::Topology;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::values::short;

/// How long a record is waited for: others may be reading it, one at a time.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most records that are compared. There is one, unless it was replaced while it was read.
const MOST: u16 = 10;

impl Control {
    /// Replaces the record of a queue.
    pub(super) async fn write_record(
        &self,
        up: &ConnectionEpoch,
        queue: &str,
        pause: &Pause,
    ) -> Result<()> {
        let payload = serde_json::to_vec(pause).map_err(|error| {
            Error::invalid("cannot serialize the record of the pause").with_source(error)
        })?;
        apply(up, &Topology::of_pause_record(self.names(), queue)).await?;
        self.known.missing_queues.forget(&self.names().pause_record(queue));
        self.purge_record(up, queue).await?;
        let to = Route::new(self.names().control(), Names::record_key(queue))?.into();
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(2);
        let message = Message { to, properties, payload };
        let confirmation = send_alone(up, &message, false).await?;
        stored(&message, &confirmation.map_err(|error| not_stored(&message, error))?)
    }

    /// Deletes the record.
    pub(super) async fn purge_record(&self, up: &ConnectionEpoch, queue: &str) -> Result<()> {
        let (doing, name) = ("deleting the record of a pause", self.names().pause_record(queue));
        let purging = |channel: Channel| async move {
            let purged = channel.queue_purge(short(name)?, QueuePurgeOptions::default()).await;
            purged.map(drop).map_err(|error| failure(doing, error))
        };
        ask(up, doing, purging).await
    }

    /// The newest record of a queue, which stays. `None` if none can be read.
    pub(super) async fn record(&self, queue: &str) -> Option<Pause> {
        let place = self.names().pause_record(queue);
        // Looking for a missing one costs a channel number.
        if self.known.missing_queues.was_missing(&place) {
            return None;
        }
        let asked = Instant::now();
        let reading = async {
            let up = self.broker.up().await?;
            let channel = open(&up).await?;
            let reading = ask_on(&up, &channel, "reading a pause", read(&channel, &place));
            let Ok(record) = timeout(PATIENCE, reading).await else { return Ok(None) };
            let _ = channel.close(200, "read".into()).await;
            record
        };
        match timeout(PATIENCE * 2, reading).await {
            Ok(Ok(record)) => record,
            Ok(Err(error)) => {
                if error.is_not_found() {
                    self.known.missing_queues.add(&place, asked);
                }
                tracing::debug!(queue, %error, "could not read the pause record");
                None
            }
            Err(_) => None,
        }
    }
}

/// The first message, and those that arrive with it. The end of the channel gives them back.
async fn read(channel: &Channel, queue: &str) -> Result<Option<Pause>> {
    let consumer = consume(channel, short(queue)?, short("record")?, Take::Prefetch(MOST)).await;
    let mut records = consumer.map_err(|error| failure("reading the record of a pause", error))?;
    let mut newest = None;
    let mut next = records.next().await;
    while let Some(Ok(record)) = next {
        let pause = serde_json::from_slice(&record.data).unwrap_or_default();
        newest = Some(newer(newest, pause));
        next = records.next().now_or_never().flatten();
    }
    Ok(newest)
}

/// The record that was written later.
fn newer(known: Option<Pause>, other: Pause) -> Pause {
    known.filter(|known| known.since > other.since).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::from_millis;

    #[test]
    fn the_newest_record_counts() {
        let at = |millis| Pause::new(from_millis(millis), "ann", "upgrade");
        let unreadable = Pause::default;
        for (known, other, expected) in [
            (None, at(1), at(1)),
            (Some(at(1)), at(2), at(2)),
            (Some(at(2)), at(1), at(2)),
            (Some(at(2)), unreadable(), at(2)),
            (Some(unreadable()), at(1), at(1)),
            (None, unreadable(), unreadable()),
        ] {
            assert_eq!(newer(known, other), expected);
        }
    }
}
