//! Seats of queues: one quorum queue each, with a single active consumer, whose holder keeps the value
//! as unacknowledged messages ([`held`]).
//!
//! The broker gives the messages of the queue to one consumer at a time. The first one makes an engine
//! the holder. When its channel ends, however that comes, the broker gives the same messages to the
//! next one. What a holder that was cut off had sent may arrive late; the *stamp* of each part tells
//! which is newer ([`record`]).

mod held;
mod record;

use std::sync::Arc;

use async_trait::async_trait;
use lapin::Confirmation;
use tokio::sync::OnceCell;
use tokio::time::sleep;

use self::held::Held;
use self::record::Kind;
use crate::engine::{Seat, Seats, check_change, check_waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::job::check_name;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::supervised::{SupervisedConnection, backoff};
use crate::rabbitmq::publish::Enqueuer;
use crate::rabbitmq::publish::confirm::{not_stored, send_alone, stored};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::lookup::count;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::requirements::Wanted;

/// The words for a seat in errors.
fn doing(queue: &str) -> String {
    format!("taking the seat of queue `{queue}`")
}

/// The seats of an engine.
#[derive(Debug)]
pub(crate) struct RabbitSeats {
    shared: Arc<Shared>,
}

/// The parts of the engine that seats use.
#[derive(Debug)]
struct Shared {
    broker: Arc<Broker>,
    declarer: Arc<Declarer>,
    enqueuer: Arc<Enqueuer>,
    /// Opened by the first seat. On the consuming connection an alarm would stop acknowledgements, and
    /// the end of the publishing one would put enqueues in doubt.
    link: OnceCell<SupervisedConnection>,
}

impl RabbitSeats {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        enqueuer: Arc<Enqueuer>,
    ) -> Self {
        Self { shared: Arc::new(Shared { broker, declarer, enqueuer, link: OnceCell::new() }) }
    }

    /// Closes the connection, and with it all seats.
    pub(crate) async fn close(&self) {
        if let Some(link) = self.shared.link.get() {
            link.close().await;
        }
    }
}

impl Shared {
    fn names(&self) -> &Names {
        self.declarer.known().names()
    }

    async fn link(&self) -> Result<&SupervisedConnection> {
        self.link.get_or_try_init(|| self.broker.open("seats")).await
    }

    /// Declares the seat of a queue, which must exist.
    async fn declare(&self, queue: &str) -> Result<()> {
        let wanted = Wanted::seat(queue);
        if self.declarer.known().covers(&wanted) {
            return Ok(());
        }
        let up = self.broker.up().await?;
        if count(&up, &self.names().work(queue)).await?.is_none() {
            let text = format!("queue `{queue}` does not exist; declare it first");
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        self.declarer.declare(wanted).await
    }

    /// Waits until the seat is this engine's, or the wait is disturbed.
    async fn take(self: &Arc<Self>, queue: &str) -> Result<Held> {
        self.broker.within(&doing(queue), self.declare(queue)).await?;
        let link = self.link().await?;
        let up = link.up().await?;
        Held::take(self, &up, queue).await
    }
}

#[async_trait]
impl Seats for RabbitSeats {
    async fn take(&self, queue: &str) -> Result<Box<dyn Seat>> {
        check_name("queue", queue)?;
        let (shared, mut waits) = (&self.shared, backoff());
        loop {
            shared.broker.check_open()?;
            let error = match shared.take(queue).await {
                Ok(held) => return Ok(Box::new(held)),
                Err(error) => error,
            };
            shared.broker.check_open()?;
            if !error.may_pass() {
                return Err(error);
            }
            tracing::debug!(queue, %error, "could not take a seat; trying again");
            let wait = waits.next().unwrap_or_default();
            shared.broker.closing().run_until_cancelled(sleep(wait)).await;
        }
    }

    async fn change(&self, queue: &str, change: Vec<u8>) -> Result<()> {
        check_name("queue", queue)?;
        check_change(&change)?;
        let shared = &self.shared;
        let doing = format!("changing the schedules of queue `{queue}`");
        let changing = async {
            shared.declare(queue).await?;
            let up = shared.broker.up().await?;
            let seat = shared.names().seat(queue);
            let waiting = count(&up, &seat).await?.map_or(0, |found| found.ready);
            check_waiting(queue, waiting)?;
            let message = Kind::Change.message(seat, change)?;
            match send_alone(&up, &message, true).await? {
                Ok(Confirmation::Ack(Some(_))) => Err(gone(queue)),
                Ok(confirmation) => stored(&message, &confirmation),
                Err(error) => Err(not_stored(&message, error)),
            }
        };
        shared.broker.within(&doing, changing).await
    }
}

/// The error of a seat whose queue was deleted on the broker.
fn gone(queue: &str) -> Error {
    let text = format!(
        "the queue for the seat of queue `{queue}` was deleted on the broker; it is declared again, so \
         try again"
    );
    Error::new(ErrorKind::Conflict, text)
}
