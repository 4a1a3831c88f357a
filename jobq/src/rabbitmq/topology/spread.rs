//! Spreading the leaders of new queues over the nodes of a cluster.
//!
//! The leader of a new quorum queue is on the node of the client that declares it, and no argument
//! changes that for one client alone: `x-queue-leader-locator` is compared with what is there. One
//! supervisor a node passes on what all queues that it leads dead-letter, and may give up where many
//! fail at once, so they are declared in turns, on one connection to each node of the URL.

use std::time::Duration;

use futures_util::future::join_all;

use super::declaration::Declaration;
use super::declare::declare_all;
use super::lookup::{Seen, look};
use super::plan::{DEAD_LETTER_EXCHANGE, Topology};
use crate::error::Error;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::SupervisedConnection;

/// How long a node may take for a connection. One that does not answer leads none of the queues.
const PATIENCE: Duration = Duration::from_secs(5);

/// Declares the queues of this topology that dead-letter, if any is missing, in turns on all nodes
/// that answer. True if it declared some. Whatever fails is left to the declaration of the whole.
/// `tell` is called for each answer.
pub(crate) async fn spread(
    broker: &Broker,
    up: &ConnectionEpoch,
    topology: &Topology,
    tell: &(dyn Fn() + Sync),
) -> bool {
    let queues: Vec<_> =
        topology.declarations().iter().filter(|declaration| passes_on(declaration)).collect();
    if broker.target().address.count() < 2 || queues.is_empty() {
        return false;
    }
    if !matches!(look(up, &queues).await, Ok(Seen::Missing(_))) {
        return false;
    }
    let links = broker.open_on_each_node("declaring", PATIENCE).await;
    // On a single one they are declared with everything else.
    let is_spread = links.len() > 1;
    if is_spread {
        let turns = links.iter().enumerate().map(|(node, link)| {
            let turn = queues.iter().skip(node).step_by(links.len()).copied();
            async move { declare_all(&*link.up().await?, turn, tell).await }
        });
        for declared in join_all(turns).await {
            if let Err::<_, Error>(error) = declared {
                tracing::debug!(
                    %error,
                    "could not declare queues on a node; it leads none of the new ones"
                );
            }
        }
    }
    join_all(links.iter().map(SupervisedConnection::close)).await;
    is_spread
}

/// Whether it is a queue that dead-letters.
fn passes_on(declaration: &Declaration) -> bool {
    match declaration {
        Declaration::Queue { arguments, .. } => arguments.contains_key(DEAD_LETTER_EXCHANGE),
        _ => false,
    }
}
