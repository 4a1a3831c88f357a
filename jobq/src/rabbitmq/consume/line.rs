//! The connection of a subscription. A message that cannot be read ends that of all others.

use std::sync::{Arc, Mutex};

use super::place::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::lock;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::probe::{self, Carrier};
use crate::rabbitmq::connection::supervised::SupervisedConnection;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::probes::node_probe;

/// The connection of a subscription: the one of all, or its own.
#[derive(Debug)]
pub(crate) struct Line {
    broker: Arc<Broker>,
    names: Names,
    current: Mutex<Current>,
}

#[derive(Debug, Clone)]
struct Current {
    link: SupervisedConnection,
    is_own: bool,
}

impl Line {
    /// Consumes on the connection of all.
    pub(crate) fn new(broker: &Arc<Broker>, names: &Names, link: SupervisedConnection) -> Self {
        let current = Mutex::new(Current { link, is_own: false });
        Self { broker: Arc::clone(broker), names: names.clone(), current }
    }

    /// The connection, or one of its own after an unreadable message ended the shared one, which
    /// protects the other queues.
    ///
    /// # Errors
    ///
    /// Its own connection ended the same way: then the message is in this queue.
    pub(crate) async fn readable(&self, place: Place) -> Result<SupervisedConnection> {
        let Current { link, is_own } = lock(&self.current).clone();
        if !link.is_unreadable() {
            return Ok(link);
        }
        let queue = place.queue();
        if is_own {
            let name = place.name(&self.names);
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "queue `{queue}` is no longer consumed, since it holds a message that cannot \
                     be read: a property or the name of a header is not UTF-8, or its headers are \
                     longer than a frame; remove the message from `{name}` with another client, \
                     and restart the pool"
                ),
            ));
        }
        match self.broker.open(&format!("consuming {queue}")).await {
            Ok(own) => {
                probe::watch(&own, self.broker.target(), Carrier::Another, node_probe(&self.names));
                *lock(&self.current) = Current { link: own.clone(), is_own: true };
                Ok(own)
            }
            Err(error) => {
                tracing::warn!(
                    queue, %error,
                    "could not open a dedicated connection; staying on the shared one"
                );
                Ok(link)
            }
        }
    }

    /// Whether a message that cannot be read ended its own connection.
    pub(crate) fn is_given_up(&self) -> bool {
        let Current { link, is_own } = &*lock(&self.current);
        *is_own && link.is_unreadable()
    }

    /// Whether the connection is its own.
    pub(crate) fn is_own(&self) -> bool {
        lock(&self.current).is_own
    }

    /// Closes its own connection.
    pub(crate) async fn close(&self) {
        let Current { link, is_own } = lock(&self.current).clone();
        if is_own {
            link.close().await;
        }
    }
}
