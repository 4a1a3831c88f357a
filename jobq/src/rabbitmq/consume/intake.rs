//! The orders to a consumer.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::engine::{Intake, Interruption, Pause};
use crate::rabbitmq::control::{Counted, Gate};

/// The consumer's side of a feed.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) orders: mpsc::UnboundedSender<Order>,
    pub(super) sessions: TaskTracker,
    pub(super) interruptions: watch::Receiver<Option<Interruption>>,
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) pauses: watch::Receiver<Option<Pause>>,
    /// The name of the consumer that the broker shows, if it has one.
    pub(super) name: Option<String>,
    pub(super) counted: Arc<Counted>,
}

#[derive(Debug)]
pub(super) enum Order {
    Prefetch(u16),
    Stop(oneshot::Sender<()>),
}

#[async_trait]
impl Intake for Control {
    async fn set_prefetch(&self, prefetch: u16) {
        let _ = self.orders.send(Order::Prefetch(prefetch));
    }

    async fn stop(&self) {
        let (stopped, over) = oneshot::channel();
        let _ = self.orders.send(Order::Stop(stopped));
        // An error means that it had stopped already.
        let _ = over.await;
    }

    fn interruptions(&self) -> watch::Receiver<Option<Interruption>> {
        self.interruptions.clone()
    }

    fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.pauses.clone()
    }

    /// A pool's consumer has its name also before it consumes again after a pause or an interruption.
    fn names(&self) -> Vec<String> {
        let name = match &self.gate {
            Some(gate) => self.name.clone().filter(|_| !gate.is_paused()),
            None => self.counted.current(),
        };
        name.into_iter().collect()
    }

    async fn settled(&self) {
        self.sessions.close();
        self.sessions.wait().await;
    }
}
