//! Consuming one queue, over as many successive channels as needed.

mod isolate;
mod paused;

use std::sync::Arc;
use std::time::Instant;

use backon::ExponentialBackoff;
use lapin::message::Delivery as Message;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::coop::consume_budget;
use tokio_util::task::TaskTracker;

use self::paused::{ask_for_pause, paused};
use super::intake::{Control, Order};
use super::interruption::{self, Interruptions, ended};
use super::live::ChannelConsumer;
use super::origins::Origins;
use super::received::{self, Source};
use super::session::{InFlightCount, Session};
use super::settle::Origin;
use super::shared::Shared;
use crate::background;
use crate::engine::{Consumer, Delivery, Pause, PoolId};
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::connection::link::{Link, STABLE_AFTER, backoff};
use crate::rabbitmq::control::{Counted, Gate};
use crate::rabbitmq::topology::ensure::apply_again;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::values::short;

/// How many deliveries are forwarded before commands are checked again.
const READY: usize = 64;

/// The words for starting to consume a queue in errors.
pub(super) fn doing(queue: &str) -> String {
    format!("consuming queue `{queue}`")
}

/// Starts to consume a queue. The consumer is active when this returns.
pub(crate) async fn consume(
    shared: Arc<Shared>,
    link: Link,
    queue: &'static str,
    prefetch: u16,
    source: Source,
    pool: Option<PoolId>,
) -> Result<Consumer> {
    let clock = shared.broker.clock().clone();
    let (jobs, deliveries) = mpsc::unbounded_channel();
    let (controls, orders) = mpsc::unbounded_channel();
    let gate = pool.is_some().then(|| shared.control.gate(queue));
    let key = match source {
        Source::Work => queue.to_owned(),
        Source::Solo(_) => Names::solo_key(queue),
    };
    let counted = pool.map(|pool| shared.control.counted(pool, key.clone()));
    let feed = Feed {
        shared,
        link,
        alone: false,
        queue,
        source,
        name: pool.map(|pool| format!("jobq.{pool}.{key}")),
        gate,
        told: watch::Sender::default(),
        counted: counted.unwrap_or_default(),
        jobs,
        orders,
        in_flight: Arc::new(InFlightCount::new(prefetch.max(1))),
        sessions: TaskTracker::new(),
        waits: backoff(),
        interruption: Interruptions::new(clock),
    };
    let (broker, doing) = (Arc::clone(&feed.shared.broker), doing(queue));
    let up = broker.within(&doing, feed.link.up()).await?;
    // It waits for as long as is sensible, however short the timeout of the client is.
    ask_for_pause(feed.gate.as_deref()).await;
    let first =
        if feed.is_paused() { None } else { Some(broker.within(&doing, feed.start(&up)).await?) };
    if first.is_none() {
        feed.tell_pause();
    }
    let control = Control {
        orders: controls,
        sessions: feed.sessions.clone(),
        interruptions: feed.interruption.subscribe(),
        gate: feed.gate.clone(),
        pauses: feed.told.subscribe(),
        name: feed.name.clone(),
        counted: Arc::clone(&feed.counted),
    };
    let tasks = feed.shared.tasks.clone();
    background::spawn(tasks.track_future(feed.run(up, first)));
    Ok(Consumer::new(deliveries, Box::new(control)))
}

/// Forwards the deliveries of one queue to their consumer.
struct Feed {
    shared: Arc<Shared>,
    link: Link,
    /// Whether the feed has a connection of its own.
    alone: bool,
    queue: &'static str,
    source: Source,
    /// The name of the consumer that the broker shows, if it is of a pool.
    name: Option<String>,
    /// Whether the queue is paused, if the consumer is of a pool that learns of it.
    gate: Option<Arc<Gate>>,
    /// The pause as the consumer is told of it: after it was cancelled, so that no job that it
    /// releases comes back to it.
    told: watch::Sender<Option<Pause>>,
    counted: Arc<Counted>,
    jobs: mpsc::UnboundedSender<Result<Delivery>>,
    orders: mpsc::UnboundedReceiver<Order>,
    /// Bounded by the prefetch.
    in_flight: Arc<InFlightCount>,
    /// Its sessions with settlements to send.
    sessions: TaskTracker,
    waits: ExponentialBackoff,
    interruption: Interruptions,
}

/// A channel that is consumed on, and the origins of its deliveries.
type Started = (ChannelConsumer, Origins);

/// How a session ended.
enum End {
    /// The consumer was stopped, with the caller that may wait for it.
    Stopped(Option<oneshot::Sender<()>>),
    /// The queue was paused.
    Paused,
    /// The error, unless the connection has a better one.
    Lost(Option<Error>),
}

impl Feed {
    async fn run(mut self, up: Arc<Up>, first: Option<Started>) {
        self.bring_all(up, first).await;
        if self.alone {
            // Its jobs may still run, and their outcomes go through this connection.
            self.sessions.close();
            self.sessions.wait().await;
            self.link.close().await;
        }
    }

    async fn bring_all(&mut self, mut up: Arc<Up>, mut consumer: Option<Started>) {
        loop {
            if let Some(consumer) = consumer.take() {
                let since = Instant::now();
                let end = self.bring(&up, consumer).await;
                if since.elapsed() > STABLE_AFTER {
                    self.waits = backoff();
                }
                match end {
                    End::Stopped(waiting) => {
                        drop(waiting);
                        return;
                    }
                    End::Lost(Some(error)) => self.interruption.begin(&error),
                    End::Lost(None) | End::Paused => {}
                }
            }
            if self.is_paused() {
                if !self.wait_while_paused().await {
                    return;
                }
                self.waits = backoff();
            }
            self.told.send_if_modified(|told| told.take().is_some());
            if self.link.is_unreadable()
                && let Err(error) = self.isolate().await
            {
                return self.fail(error);
            }
            let wait = self.waits.next().unwrap_or_default();
            let link = self.link.clone();
            let (interruption, gate) = (self.interruption.clone(), self.gate.clone());
            let next = async {
                let tell = |error: &Error| interruption.begin(error);
                link.up_or_tell(tell).await?;
                tokio::time::sleep(wait).await;
                loop {
                    let up = link.up_or_tell(tell).await?;
                    tokio::select! {
                        biased;
                        () = ask_for_pause(gate.as_deref()) => return Ok::<_, Error>(up),
                        // The answer may take long, and the reason is another one from now on.
                        () = link.lost(up.generation) => {}
                    }
                }
            };
            up = match self.unless_stopped(next).await {
                Some(Ok(up)) => up,
                _ => return,
            };
            if self.is_paused() {
                continue;
            }
            match up.answer("consuming", self.start(&up)).await {
                Ok(started) => {
                    consumer = Some(started);
                    self.interruption.end();
                }
                Err(error) if error.may_pass() => {
                    interruption::log(self.queue, &error);
                    self.interruption.begin(&error);
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Sends the consumer the error that ends it.
    fn fail(&self, error: Error) {
        // A dropped consumer needs no error.
        let _ = self.jobs.send(Err(error));
    }

    /// The output of the future, or `None` if the consumer is stopped first.
    async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.shared.broker.closing().cancelled() => return None,
                order = self.orders.recv() => match order {
                    Some(Order::Prefetch(prefetch)) => self.in_flight.set_limit(prefetch),
                    Some(Order::Stop(_)) | None => return None,
                },
                value = &mut future => return Some(value),
            }
        }
    }

    /// Opens a channel and consumes on it. Declares a deleted queue again if this client had
    /// declared it.
    async fn start(&self, up: &Arc<Up>) -> Result<Started> {
        match self.consume(up).await {
            Err(error) if error.is_not_found() => match self.shared.known().part(self.queue) {
                Some(wanted) => {
                    apply_again(up, &self.shared.known().topology(&wanted)).await?;
                    self.consume(up).await
                }
                None => Err(Error::new(
                    ErrorKind::NotFound,
                    format!("there is no queue `{}` to consume; declare it first", self.queue),
                )
                .because(error)),
            },
            started => started,
        }
    }

    async fn consume(&self, up: &Up) -> Result<Started> {
        let channel = open(up).await?;
        let queue = short(self.place())?;
        let last_acks = self.shared.last_acks.clone();
        let sending = self.sessions.token();
        let session = Session::spawn(channel, up, &self.shared.ack_tasks, last_acks, sending);
        let mut consumer = ChannelConsumer::new(session, queue, self.name.clone());
        consumer.set_prefetch(self.in_flight.limit()).await?;
        let origins = self.origins(&consumer);
        Ok((consumer, origins))
    }

    /// The name of the queue on the broker.
    fn place(&self) -> String {
        match self.source {
            Source::Work => self.shared.names().work(self.queue),
            Source::Solo(_) => self.shared.names().solo(self.queue),
        }
    }

    async fn bring(&mut self, up: &Up, (mut consumer, mut origins): Started) -> End {
        let mut pauses = self.gate.as_ref().map(|gate| gate.pauses());
        loop {
            let free = !self.in_flight.is_full();
            tokio::select! {
                biased;
                () = self.shared.broker.closing().cancelled() => return self.stop(origins, consumer, None).await,
                order = self.orders.recv() => match order {
                    Some(Order::Prefetch(prefetch)) => {
                        self.in_flight.set_limit(prefetch);
                        let changing = consumer.set_prefetch(prefetch);
                        if let Err(error) = up.answer("changing the prefetch", changing).await {
                            tracing::warn!(queue = self.queue, %error, "consuming anew");
                            consumer.session.abandon().await;
                            return End::Lost(Some(error));
                        }
                        consumer.current().into_iter().for_each(|new| origins.begin(new));
                    }
                    Some(Order::Stop(waiting)) => return self.stop(origins, consumer, Some(waiting)).await,
                    None => return self.stop(origins, consumer, None).await,
                },
                () = self.link.lost(up.generation) => {
                    consumer.session.end();
                    return End::Lost(None);
                }
                () = paused(&mut pauses) => return self.halt(origins, consumer).await,
                () = self.in_flight.freed(), if !free => (),
                next = consumer.next_if(free) => match next {
                    Ok(message) => {
                        self.hand_over(&mut origins, message);
                        self.bring_ready(&mut origins, &mut consumer);
                        // The only point at which the task yields while there are messages.
                        consume_budget().await;
                    }
                    Err(reason) => {
                        tracing::warn!(queue = self.queue, reason, "the broker ended the consumer; consuming anew");
                        consumer.session.abandon().await;
                        return End::Lost(Some(ended(self.queue, &reason)));
                    }
                },
            }
        }
    }

    /// The origins of the deliveries of this channel.
    fn origins(&self, consumer: &ChannelConsumer) -> Origins {
        let origin = Origin {
            declarer: Arc::clone(&self.shared.declarer),
            publisher: Arc::clone(&self.shared.publisher),
            session: Arc::clone(&consumer.session),
            queue: self.queue,
            clock: self.shared.broker.clock().clone(),
            in_flight: Arc::clone(&self.in_flight),
            tasks: self.shared.tasks.clone(),
        };
        let mut origins = Origins::new(origin, Arc::clone(&self.counted));
        consumer.current().into_iter().for_each(|first| origins.begin(first));
        origins
    }

    /// Forwards the messages that have arrived, without waiting for anything else.
    fn bring_ready(&self, origins: &mut Origins, consumer: &mut ChannelConsumer) {
        for _ in 0..READY {
            if self.in_flight.is_full() {
                return;
            }
            let Some(message) = consumer.ready() else {
                return;
            };
            self.hand_over(origins, message);
        }
    }

    fn hand_over(&self, origins: &mut Origins, (id, message): (u32, Message)) {
        self.forward(received::delivery(&self.shared, &self.source, origins.of(id), message));
    }

    /// Forwards a delivery to the consumer. If that is dropped, the delivery is requeued.
    fn forward(&self, delivery: Delivery) {
        let _ = self.jobs.send(Ok(delivery));
    }

    /// Ends the consumer and requeues its untaken messages.
    async fn stop(
        &self,
        origins: Origins,
        consumer: ChannelConsumer,
        waiting: Option<oneshot::Sender<()>>,
    ) -> End {
        // An unsettled delivery is requeued when it is dropped.
        drop(self.cancel(origins, consumer).await);
        End::Stopped(waiting)
    }

    /// Ends the consumer, and returns its untaken deliveries. A broker that does not answer in time
    /// may send more until it does: those are forwarded, and released where nobody takes them.
    async fn cancel(&self, mut origins: Origins, mut consumer: ChannelConsumer) -> Vec<Delivery> {
        let (shared, source) = (Arc::clone(&self.shared), self.source.clone());
        let mut untaken = Box::pin(async move {
            // A connection that ends meanwhile requeues everything.
            let messages = consumer.stop().await.unwrap_or_default();
            let mut received =
                |(id, message)| received::delivery(&shared, &source, origins.of(id), message);
            messages.into_iter().map(&mut received).collect::<Vec<_>>()
        });
        let broker = &self.shared.broker;
        if let Ok(untaken) = tokio::time::timeout(broker.timeout(), &mut untaken).await {
            return untaken;
        }
        tracing::warn!(
            queue = self.queue,
            "the broker did not answer in time that a consumer is cancelled; the jobs that it sends meanwhile are handed back when it does"
        );
        let (jobs, closing) = (self.jobs.clone(), broker.closing().clone());
        background::spawn(self.shared.tasks.track_future(async move {
            for delivery in closing.run_until_cancelled(untaken).await.into_iter().flatten() {
                let _ = jobs.send(Ok(delivery));
            }
        }));
        Vec::new()
    }
}
