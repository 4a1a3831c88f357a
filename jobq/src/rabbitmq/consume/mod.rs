//! Consuming: deliveries, prefetch, acknowledgements and settlements.
//!
//! A message reaches the [`consumer`] over a channel ([`live`]), in the order of [`merge`] if the
//! channel had several consumers. [`settle`] settles it, and the [`session`] of the channel sends
//! the acknowledgements that [`acks`] determines. After a suspension of the process, [`verification`]
//! asks whether the messages are still this consumer's.

pub(crate) mod acks;
pub(crate) mod consumer;
mod intake;
pub(crate) mod interruption;
pub(crate) mod live;
pub(crate) mod merge;
mod origins;
mod received;
pub(crate) mod session;
pub(crate) mod settle;
mod shared;
mod verification;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::received::Source;
use self::shared::Shared;
use crate::background;
use crate::engine::{Consume, Consumer};
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::link::Link;
use crate::rabbitmq::connection::probe::{self, Carrier};
use crate::rabbitmq::control::Control;
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::stray::{self, Strays};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::probes::node_probe;
use crate::rabbitmq::topology::upkeep;

/// The prefetch of the solo queue. It is high because a job whose start was recorded moves to the
/// end of the queue.
const SOLO_PREFETCH: u16 = 10_000;
/// How long the last acknowledgements may take when the engine is closed.
const LAST_ACKS_TIMEOUT: Duration = Duration::from_secs(2);

/// The consumers of an engine.
#[derive(Debug)]
pub(crate) struct Consumers {
    shared: Arc<Shared>,
    /// Opened by the first consumer. Not the publishing connection, since the broker stops reading
    /// from connections that publish when it is short of memory or disk.
    link: OnceCell<Link>,
}

impl Consumers {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        publisher: Arc<Publisher>,
        control: Arc<Control>,
    ) -> Self {
        let shared = Arc::new(Shared::new(broker, declarer, publisher, control));
        Self { shared, link: OnceCell::new() }
    }

    /// Starts to consume a queue.
    pub(crate) async fn consume(&self, what: Consume) -> Result<Consumer> {
        let Consume { queue, prefetch, solo, pool } = what;
        let (prefetch, source) = if solo {
            (SOLO_PREFETCH, Source::Solo(Arc::default()))
        } else {
            (prefetch, Source::Work)
        };
        let (shared, queue) = (Arc::clone(&self.shared), queue.as_str());
        let link = shared.broker.within(&consumer::doing(queue), self.link()).await?;
        consumer::consume(shared, link, queue, prefetch, source, pool).await
    }

    /// The connection for consuming. The first call opens it, and starts the tasks for strays and
    /// for the upkeep of the topology.
    async fn link(&self) -> Result<Link> {
        let opening = async {
            let Shared { broker, declarer, publisher, limited, tasks, .. } = &*self.shared;
            let link = broker.open("consuming").await?;
            let route = node_probe(self.shared.names());
            probe::watch(&link, broker.target(), Carrier::Another, route);
            let strays = Strays {
                broker: Arc::clone(broker),
                declarer: Arc::clone(declarer),
                publisher: Arc::clone(publisher),
                limited: Arc::clone(limited),
            };
            let strays = stray::run(strays, link.clone());
            let upkeep = upkeep::run(Arc::clone(broker), Arc::clone(declarer));
            background::spawn(tasks.track_future(strays));
            background::spawn(tasks.track_future(upkeep));
            Ok(link)
        };
        self.link.get_or_try_init(|| opening).await.cloned()
    }

    /// Waits for the consumers, which end when the engine is closed, and for their last
    /// acknowledgements.
    pub(crate) async fn close(&self) {
        self.shared.tasks.close();
        let _ = timeout(LAST_ACKS_TIMEOUT, self.shared.tasks.wait()).await;
        self.shared.last_acks.cancel();
        self.shared.ack_tasks.close();
        let _ = timeout(LAST_ACKS_TIMEOUT, self.shared.ack_tasks.wait()).await;
        if let Some(link) = self.link.get() {
            link.close().await;
        }
    }
}
