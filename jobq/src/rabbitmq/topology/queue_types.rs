//! Which type jobq's temporary queues have on a broker.
//!
//! From RabbitMQ 4.2 on, a broker may have no classic queues (`queue_types.classic.enabled = false`).
//! It closes the connection that declares one, so this is tried on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use uuid::Uuid;

use super::declare::declare_temporary;
use super::names::Names;
use super::temporary::{QueueType, TemporaryQueue};
use crate::error::{Error, Result};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::server_properties::number;
use crate::rabbitmq::errors::{failure, lacks_classic};

/// The first version that may have no classic queues.
const MAY_LACK_CLASSIC: (u32, u32) = (4, 2);
/// How long the broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The type of temporary queues, found out once for each version that is met.
#[derive(Debug)]
pub(crate) struct QueueTypes {
    broker: Arc<Broker>,
    names: Names,
    /// The version, and what was found.
    found: Mutex<Option<(Option<String>, QueueType)>>,
}

impl QueueTypes {
    pub(crate) fn new(broker: Arc<Broker>, names: Names) -> Self {
        Self { broker, names, found: Mutex::default() }
    }

    /// The type of temporary queues on a broker of this version.
    pub(crate) async fn temporary(&self, version: Option<&str>) -> QueueType {
        let mut found = self.found.lock().await;
        if let Some((of, kind)) = &*found
            && of.as_deref() == version
        {
            return *kind;
        }
        let kind = if version.and_then(number).is_some_and(|number| number >= MAY_LACK_CLASSIC) {
            self.find_out().await
        } else {
            QueueType::Classic
        };
        *found = Some((version.map(str::to_owned), kind));
        kind
    }

    /// Learns from the refusal of a temporary queue: a node may have been started again with another
    /// setting, or the try may have had no answer.
    pub(crate) async fn learn(&self, refusal: &Error) {
        if lacks_classic(refusal)
            && let Some((_, kind)) = &mut *self.found.lock().await
        {
            *kind = QueueType::Quorum;
        }
    }

    async fn find_out(&self) -> QueueType {
        match timeout(PATIENCE, self.try_classic()).await {
            Ok(Err(error)) if lacks_classic(&error) => QueueType::Quorum,
            Ok(Err(error)) => {
                tracing::debug!(
                    %error,
                    "could not determine whether the broker has classic queues"
                );
                QueueType::Classic
            }
            Ok(Ok(())) | Err(_) => QueueType::Classic,
        }
    }

    /// Declares a control queue, as every client may that needs a temporary queue.
    async fn try_classic(&self) -> Result<()> {
        let once = self.broker.connect_once("queue types").await?;
        // `lapin` logs the end of this connection otherwise.
        once.questions.end();
        let doing = "determining the supported types of queues";
        let channel = once.connection.create_channel().await;
        let channel = channel.map_err(|error| failure(doing, error))?;
        let classic = TemporaryQueue::control(&self.names, Uuid::now_v7(), QueueType::Classic);
        declare_temporary(&channel, &classic).await?;
        let closed = once.connection.close(200, "found out".into()).await;
        closed.map_err(|error| failure(doing, error))
    }
}
