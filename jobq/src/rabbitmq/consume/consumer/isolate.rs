//! A feed on a connection of its own: a message that cannot be read ends that of all others.

use super::Feed;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::probe::{self, Carrier};
use crate::rabbitmq::topology::probes::node_probe;

impl Feed {
    /// Moves to a connection of its own after an unreadable message ended the shared one, which
    /// protects the other queues. An error if its own connection ended the same way: then the
    /// message is in this queue.
    pub(super) async fn isolate(&mut self) -> Result<()> {
        let queue = self.queue;
        if self.alone {
            let name = self.place();
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "queue `{queue}` holds a message that cannot be read, and is not consumed any \
                     more: a property or the name of a header is no UTF-8, or its headers are \
                     longer than a frame; take it out of `{name}` by another client, and start \
                     the pool again"
                ),
            ));
        }
        let broker = &self.shared.broker;
        match broker.open(&format!("consuming {queue}")).await {
            Ok(link) => {
                let route = node_probe(self.shared.names());
                probe::watch(&link, broker.target(), Carrier::Another, route);
                (self.link, self.alone) = (link, true);
            }
            Err(error) => tracing::warn!(queue, %error, "no connection of its own yet"),
        }
        Ok(())
    }
}
