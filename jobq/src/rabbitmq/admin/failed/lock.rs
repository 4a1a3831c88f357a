//! The lock on the failed jobs of a queue: a queue that one client at a time has.
//!
//! As an exclusive queue, it ends with its connection. Where there are no classic queues, it is a
//! quorum queue that was declared with a number of the client's own. It stays while the client
//! consumes it, and some seconds after that.

use std::time::Duration;

use lapin::options::QueueDeleteOptions;
use lapin::{Channel, Consumer};
use tokio::time::timeout;

use crate::background;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::{Take, consume};
use crate::rabbitmq::errors::{
    NOT_FOUND, PRECONDITION_FAILED, RESOURCE_LOCKED, failure, refused_in,
};
use crate::rabbitmq::topology::declare::declare_temporary;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::temporary::{QueueType, TemporaryQueue};
use crate::rabbitmq::values::short;

/// A lock, as this client declares it.
pub(super) struct Lock {
    queue: TemporaryQueue,
    /// The channel on which it is taken and held.
    channel: Channel,
    /// Keeps a quorum queue.
    consumer: Option<Consumer>,
}

impl Lock {
    pub(super) fn new(names: &Names, queue: &str, kind: QueueType, channel: Channel) -> Self {
        let queue = TemporaryQueue::failed_lock(names, queue, kind, fastrand::u32(1..));
        Self { queue, channel, consumer: None }
    }

    /// Its name on the broker.
    pub(super) fn name(&self) -> &str {
        &self.queue.name
    }

    /// Tries to take it. If another client has it, the channel has ended, and the next try needs
    /// [another one](Self::reopen).
    pub(super) async fn take(&mut self) -> Result<bool> {
        match self.declare().await {
            Ok(()) => Ok(true),
            Err(error) if is_of_another(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn declare(&mut self) -> Result<()> {
        declare_temporary(&self.channel, &self.queue).await?;
        if self.queue.kind == QueueType::Quorum {
            let (queue, tag) = (short(self.name())?, short("lock")?);
            let consumer = consume(&self.channel, queue, tag, Take::Prefetch(1)).await;
            self.consumer = Some(consumer.map_err(|error| failure("holding a lock", error))?);
        }
        Ok(())
    }

    /// Goes on with another channel.
    pub(super) fn reopen(&mut self, channel: Channel) {
        self.channel = channel;
    }

    /// Releases a lock that a broker may still give to the channel, after a wait that was too long.
    pub(super) fn give_back(self) {
        // The broker does what a channel asks for in its order.
        background::spawn(async move {
            // An exclusive queue would last as long as the connection. A quorum queue may be
            // another client's, and this client's ends by itself.
            if self.queue.kind == QueueType::Classic {
                let _ = self.delete().await;
            }
            let _ = self.channel.close(200, "given up".into()).await;
        });
    }

    /// Releases the lock. After an error the end of the connection releases it.
    pub(super) async fn release(self, limit: Duration, queue: &str) {
        let released = timeout(limit, self.delete()).await;
        if let Ok(Err(error)) = released
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, queue, "could not release the lock on failed jobs");
        }
        let _ = timeout(limit, self.channel.close(200, "done".into())).await;
    }

    async fn delete(&self) -> Result<()> {
        let queue = short(self.name())?;
        let deleted = self.channel.queue_delete(queue, QueueDeleteOptions::default()).await;
        deleted.map(|_| ()).map_err(|error| failure("releasing the lock", error))
    }
}

/// Whether another client has the lock: as an exclusive queue, as a quorum queue of its number, or
/// as one that has just ended.
fn is_of_another(refusal: &Error) -> bool {
    match refused_in(refusal) {
        Some((RESOURCE_LOCKED | NOT_FOUND, _)) => true,
        Some((PRECONDITION_FAILED, text)) => text.contains("inequivalent arg"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    #[test]
    fn a_lock_of_another_client_is_told_from_other_refusals() {
        let table = [
            (405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'", true),
            (
                406,
                "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': \
                 received '7' but current is '8'",
                true,
            ),
            (404, "NOT_FOUND - no queue 'q' in vhost '/'", true),
            (406, "PRECONDITION_FAILED - queue limit in vhost '/' (3) is reached", false),
            (403, "ACCESS_REFUSED - access to queue 'q'", false),
        ];
        for (code, text, expected) in table {
            let refusal = AMQPError::from_id(code, text.into()).unwrap();
            let error = failure("locking", lapin::ErrorKind::ProtocolError(refusal).into());
            assert_eq!(is_of_another(&error), expected, "{text}");
        }
        assert!(!is_of_another(&Error::invalid("no refusal")));
    }
}
