//! Seats of queues: one quorum queue each, with a single active consumer, whose holder keeps the value
//! as unacknowledged messages ([`held`]).
//!
//! The broker gives the messages of the queue to one consumer at a time. The first one makes an engine
//! the holder. When its channel ends, however that comes, the broker gives the same messages to the
//! next one. What a holder that was cut off had sent may arrive late; the *stamp* of each part tells
//! which is newer ([`record`]).

mod held;
mod line;
mod record;

use std::sync::Arc;

use async_trait::async_trait;
use lapin::Confirmation;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use self::held::Held;
use self::record::Kind;
use crate::engine::{Seat, Seats, check_change, check_waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::job::check_name;
use crate::rabbitmq::connection::broker::{Broker, on_living};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::probe::{self, Carrier};
use crate::rabbitmq::connection::supervised::{STABLE_AFTER, SupervisedConnection, backoff};
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::publish::Enqueuer;
use crate::rabbitmq::publish::confirm::{not_stored, send_alone, stored};
use crate::rabbitmq::publish::error::unanswered;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::ensure::apply_again;
use crate::rabbitmq::topology::lookup::{count, inspect};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::probes::node_probe;
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing::Route;
use crate::repeated::RepeatedBy;

/// The words for taking a seat in errors.
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
    /// Seats that cannot be taken, by their queues.
    troubles: RepeatedBy<String>,
}

impl RabbitSeats {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        enqueuer: Arc<Enqueuer>,
    ) -> Self {
        let (link, troubles) = (OnceCell::new(), RepeatedBy::default());
        Self { shared: Arc::new(Shared { broker, declarer, enqueuer, link, troubles }) }
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

    /// The way to the queue of a seat.
    fn route(&self, queue: &str) -> Result<Route> {
        Route::new(self.names().control(), Names::seat_key(queue))
    }

    async fn link(&self) -> Result<&SupervisedConnection> {
        let opening = async {
            let link = self.broker.open("seats").await?;
            let route = node_probe(self.names());
            probe::watch(&link, self.broker.target(), Carrier::Another, route);
            Ok(link)
        };
        self.link.get_or_try_init(|| opening).await
    }

    /// Declares the seat of a queue, which must exist.
    async fn declare(&self, queue: &str) -> Result<()> {
        let wanted = Wanted::seat(queue);
        if self.declarer.known().covers(&wanted) {
            return Ok(());
        }
        self.must_exist(&*self.broker.up().await?, queue).await?;
        self.declarer.declare(wanted).await
    }

    /// Declares the seat of a queue, which must exist, once more.
    async fn declare_again(&self, up: &ConnectionEpoch, queue: &str) -> Result<()> {
        self.must_exist(up, queue).await?;
        apply_again(up, &self.declarer.known().topology(&Wanted::seat(queue))).await.map(drop)
    }

    async fn must_exist(&self, up: &ConnectionEpoch, queue: &str) -> Result<()> {
        if count(up, &self.names().work(queue)).await?.is_some() {
            return Ok(());
        }
        let text = format!("queue `{queue}` does not exist; declare it first");
        Err(Error::new(ErrorKind::NotFound, text))
    }

    /// Waits until the seat is this engine's, or the wait is disturbed.
    async fn take(self: &Arc<Self>, queue: &str) -> Result<Held> {
        let opening = async {
            self.declare(queue).await?;
            self.link().await
        };
        let link = self.broker.within(&doing(queue), opening).await?;
        let up = link.up().await?;
        Held::take(self, &up, queue).await
    }

    /// Declares a queue that was deleted once more, and publishes what it had.
    async fn restore(&self, queue: &str, parts: [(Kind, Vec<u8>); 2]) -> Result<()> {
        let up = self.broker.up().await?;
        self.declare_again(&up, queue).await?;
        for (kind, content) in parts {
            self.publish(&up, queue, kind, content).await?;
        }
        tracing::warn!(queue, "queue of a seat deleted on the broker; restored its value");
        Ok(())
    }

    /// Publishes a message to a seat, for whose answer it waits no longer than a call may take. False if it
    /// reached no queue.
    async fn publish(
        &self,
        up: &ConnectionEpoch,
        queue: &str,
        kind: Kind,
        content: Vec<u8>,
    ) -> Result<bool> {
        let (message, limit) = (kind.message(self.route(queue)?, content), self.broker.timeout());
        let Ok(answer) = timeout(limit, send_alone(up, &message, true)).await else {
            let trouble = self.broker.publishing().trouble();
            return Err(unanswered(&message, limit, &trouble, true));
        };
        match answer? {
            Ok(Confirmation::Ack(Some(_))) => Ok(false),
            answer => published(&message, answer).map(|()| true),
        }
    }
}

#[async_trait]
impl Seats for RabbitSeats {
    async fn take(&self, queue: &str) -> Result<Box<dyn Seat>> {
        check_name("queue", queue)?;
        let (shared, mut waits) = (&self.shared, backoff());
        loop {
            shared.broker.check_open()?;
            let began = Instant::now();
            let error = match shared.take(queue).await {
                Ok(held) => return Ok(Box::new(held)),
                Err(error) => error,
            };
            shared.broker.check_open()?;
            if !error.may_pass() {
                return Err(error);
            }
            if error.kind() != ErrorKind::Connection
                && let Some(line) = shared.troubles.happens(queue.to_owned(), Instant::now())
            {
                tracing::warn!(queue, %error, more = line.more, "could not take a seat; trying again");
            }
            if began.elapsed() > STABLE_AFTER {
                waits = backoff();
            }
            let wait = waits.next().unwrap_or_default();
            shared.broker.closing().run_until_cancelled(sleep(wait)).await;
        }
    }

    async fn exists(&self, queue: &str) -> Result<bool> {
        check_name("queue", queue)?;
        let shared = &self.shared;
        let seat = &shared.names().seat(queue);
        let looking =
            on_living(shared.broker.publishing(), |up| async move { inspect(&up, seat).await });
        let doing = format!("looking for the seat of queue `{queue}`");
        Ok(shared.broker.within(&doing, looking).await?.is_some())
    }

    async fn change(&self, queue: &str, change: Vec<u8>) -> Result<()> {
        check_name("queue", queue)?;
        check_change(&change)?;
        let shared = &self.shared;
        let doing = format!("changing the schedules of queue `{queue}`");
        let seat = shared.names().seat(queue);
        let preparing = async {
            shared.declare(queue).await?;
            let up = shared.broker.up().await?;
            if let Some(found) = count(&up, &seat).await? {
                check_waiting(queue, found.ready)?;
            } else {
                shared.declare_again(&up, queue).await?;
            }
            Ok(up)
        };
        let up = shared.broker.within(&doing, preparing).await?;
        if shared.publish(&up, queue, Kind::Change, change.clone()).await? {
            return Ok(());
        }
        shared.broker.within(&doing, shared.declare_again(&up, queue)).await?;
        let published = shared.publish(&up, queue, Kind::Change, change).await?;
        if published { Ok(()) } else { Err(gone(queue)) }
    }
}

/// The error of a seat whose queue was deleted on the broker.
fn gone(queue: &str) -> Error {
    let text = format!(
        "the queue for the seat of queue `{queue}`, or its binding, was deleted on the broker; try again"
    );
    Error::new(ErrorKind::Conflict, text)
}

/// The broker's answer to a publish.
fn published(message: &Message, answer: lapin::Result<Confirmation>) -> Result<()> {
    match answer {
        Ok(confirmation) => stored(message, &confirmation),
        Err(error) => Err(not_stored(message, error)),
    }
}
