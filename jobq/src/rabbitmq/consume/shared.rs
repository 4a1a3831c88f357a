//! The parts that the consumers of an engine share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::interruption::Troubles;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::message::limited::LimitedQueues;
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::topology::declarer::Declarer;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) broker: Arc<Broker>,
    pub(crate) declarer: Arc<Declarer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) limited: Arc<LimitedQueues>,
    pub(crate) troubles: Arc<Troubles>,
    /// The consumers, and the jobs that they requeue as new messages.
    pub(crate) tasks: TaskTracker,
    /// Cancelled after the consumers have ended, to send the last acknowledgements.
    pub(crate) last_acks: CancellationToken,
    /// The tasks that send settlements, which outlive the consumers.
    pub(crate) ack_tasks: TaskTracker,
}

impl Shared {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self {
            broker,
            declarer,
            publisher,
            limited: Arc::default(),
            troubles: Arc::default(),
            tasks: TaskTracker::new(),
            last_acks: CancellationToken::new(),
            ack_tasks: TaskTracker::new(),
        }
    }
}
