//! Taking the jobs of one queue, over as many channels as it takes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use backon::ExponentialBackoff;
use lapin::message::Delivery as Message;
use tokio::sync::{mpsc, oneshot};

use super::Core;
use super::declare::{Wanted, apply, open};
use super::link::{LASTING, Link, Up, backoff};
use super::live::Live;
use super::session::{Hand, Session};
use super::settle::Ticket;
use super::wire::{decode, short};
use crate::engine::{Consumer, Delivery, Intake};
use crate::error::{Error, ErrorKind, Result};

/// Deliveries that may wait between the channel and [`Consumer::next`].
const BUFFER: usize = 1_024;
/// How many deliveries are brought before orders are looked at again.
const READY: usize = 64;

/// Starts to consume a queue. The consumer takes jobs when this returns.
pub(crate) async fn consume(
    core: &Arc<Core>,
    link: Link,
    queue: &str,
    prefetch: u16,
) -> Result<Consumer> {
    let (jobs, deliveries) = mpsc::channel(BUFFER);
    let (controls, orders) = mpsc::unbounded_channel();
    let feed = Feed {
        core: Arc::clone(core),
        link,
        alone: false,
        queue: Cow::Owned(queue.to_owned()),
        prefetch: prefetch.max(1),
        jobs,
        orders,
        hand: Arc::default(),
        waits: backoff(),
    };
    let up = feed.link.up().await?;
    let first = feed.start(&up).await?;
    core.tasks.spawn(feed.run(up, first));
    Ok(Consumer::new(deliveries, Box::new(Control { orders: controls })))
}

#[derive(Debug)]
struct Control {
    orders: mpsc::UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
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
        // An error says that it had stopped before.
        let _ = over.await;
    }
}

/// Brings the deliveries of one queue to their consumer.
struct Feed {
    core: Arc<Core>,
    link: Link,
    /// Whether the connection is this feed's own.
    alone: bool,
    queue: Cow<'static, str>,
    prefetch: u16,
    jobs: mpsc::Sender<Result<Delivery>>,
    orders: mpsc::UnboundedReceiver<Order>,
    hand: Arc<Hand>,
    waits: ExponentialBackoff,
}

/// How a session ended.
enum End {
    /// The consumer was stopped; somebody may wait for that.
    Stopped(Option<oneshot::Sender<()>>),
    Lost,
}

impl Feed {
    async fn run(mut self, up: Arc<Up>, first: Live) {
        self.bring_all(up, first).await;
        if self.alone {
            self.link.close().await;
        }
    }

    async fn bring_all(&mut self, mut up: Arc<Up>, first: Live) {
        let mut live = Some(first);
        loop {
            if let Some(live) = live.take() {
                let since = Instant::now();
                let end = self.bring(&up, live).await;
                if since.elapsed() > LASTING {
                    self.waits = backoff();
                }
                if let End::Stopped(waiting) = end {
                    drop(waiting);
                    return;
                }
            }
            if self.link.is_unreadable()
                && let Err(error) = self.isolate().await
            {
                return self.fail(error).await;
            }
            let wait = self.waits.next().unwrap_or_default();
            let link = self.link.clone();
            let next = async {
                tokio::time::sleep(wait).await;
                link.up().await
            };
            up = match self.unless_stopped(next).await {
                Some(Ok(up)) => up,
                _ => return,
            };
            match self.start(&up).await {
                Ok(started) => live = Some(started),
                Err(error) if error.is_connection() || error.is_timeout() => {
                    tracing::warn!(queue = &*self.queue, %error, "not consuming yet");
                }
                Err(error) => {
                    return self.fail(error).await;
                }
            }
        }
    }

    /// Goes on over a connection of its own, after the one that is shared ended at a message
    /// that cannot be read: whoever's it was, the others are rid of it. An error if the own
    /// connection ended so, too: then it is this queue's.
    async fn isolate(&mut self) -> Result<()> {
        let queue = &*self.queue;
        if self.alone {
            let name = self.core.names.work(queue);
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "queue `{queue}` holds a message that cannot be read, and is not consumed any \
                     more: a property or the name of a header is no UTF-8; take it out of \
                     `{name}` by another client, and start the pool again"
                ),
            ));
        }
        let name = format!("{} (consuming {queue})", self.core.options.connection_name);
        let address = Arc::clone(&self.core.address);
        match Link::open(address, name, self.core.options.timeout).await {
            Ok(link) => (self.link, self.alone) = (link, true),
            Err(error) => tracing::warn!(queue, %error, "no connection of its own yet"),
        }
        Ok(())
    }

    /// Tells the consumer why it ends.
    async fn fail(&mut self, error: Error) {
        let jobs = self.jobs.clone();
        // Who stops the consumer does not ask any more.
        self.unless_stopped(jobs.send(Err(error))).await;
    }

    /// What the future gives, or `None` if the consumer is stopped before.
    async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.core.closing.cancelled() => return None,
                order = self.orders.recv() => match order {
                    Some(Order::Prefetch(prefetch)) => self.prefetch = prefetch,
                    Some(Order::Stop(_)) | None => return None,
                },
                value = &mut future => return Some(value),
            }
        }
    }

    /// Opens a channel and consumes on it. A queue that is gone is declared again, if
    /// this client declared it.
    async fn start(&self, up: &Arc<Up>) -> Result<Live> {
        match self.consume(up).await {
            Err(error) if error.is_not_found() => match self.core.declared.tiers(&self.queue) {
                Some(tiers) => {
                    let wanted = Wanted::queue(&self.queue, tiers);
                    apply(up, &self.core.declared.topology(&wanted)).await?;
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

    async fn consume(&self, up: &Up) -> Result<Live> {
        let channel = open(up).await?;
        let queue = short(&self.core.names.work(&self.queue))?;
        let last_word = self.core.last_word.clone();
        let session = Session::spawn(channel, &self.core.tellers, last_word);
        let mut live = Live::new(session, queue);
        live.set_prefetch(self.prefetch).await?;
        Ok(live)
    }

    async fn bring(&mut self, up: &Up, mut live: Live) -> End {
        loop {
            let free = self.hand.count() < usize::from(self.prefetch);
            tokio::select! {
                biased;
                () = self.core.closing.cancelled() => return self.stop(live, None).await,
                order = self.orders.recv() => match order {
                    Some(Order::Prefetch(prefetch)) => {
                        self.prefetch = prefetch;
                        if let Err(error) = live.set_prefetch(prefetch).await {
                            tracing::warn!(queue = &*self.queue, %error, "consuming anew");
                            live.session.abandon().await;
                            return End::Lost;
                        }
                    }
                    Some(Order::Stop(waiting)) => return self.stop(live, Some(waiting)).await,
                    None => return self.stop(live, None).await,
                },
                () = self.link.lost(up.generation) => {
                    live.session.end();
                    return End::Lost;
                }
                () = self.hand.freed(), if !free => (),
                next = next(&self.jobs, &mut live), if free => match next {
                    Ok((room, message)) => {
                        room.send(Ok(self.receive(&live.session, message)));
                        self.bring_ready(&mut live);
                    }
                    Err(None) => return self.stop(live, None).await,
                    Err(Some(reason)) => {
                        tracing::warn!(queue = &*self.queue, reason, "the broker ended the consumer; consuming anew");
                        live.session.abandon().await;
                        return End::Lost;
                    }
                },
            }
        }
    }

    /// Brings what is there already, without looking at anything else meanwhile.
    fn bring_ready(&self, live: &mut Live) {
        for _ in 0..READY {
            if self.hand.count() >= usize::from(self.prefetch) {
                return;
            }
            let Ok(room) = self.jobs.try_reserve() else {
                return;
            };
            let Some(message) = live.ready() else {
                return;
            };
            room.send(Ok(self.receive(&live.session, message)));
        }
    }

    /// A message as a delivery.
    fn receive(&self, session: &Arc<Session>, message: Message) -> Delivery {
        let received =
            decode(&self.core.names, self.queue.clone(), &message.properties, message.data);
        let ticket = Ticket {
            core: Arc::clone(&self.core),
            session: Arc::clone(session),
            tag: message.delivery_tag,
            queue: self.queue.clone(),
            properties: message.properties,
            // A message that came without an id gets it by being published again.
            wait: received.wait.filter(|_| received.has_id),
            open: true,
            _in_hand: self.hand.take(),
        };
        Delivery::new(received.envelope, received.attempts.saturating_add(1), Box::new(ticket))
    }

    /// Ends the consumer and gives back what it was sent and nobody has taken.
    async fn stop(&self, mut live: Live, waiting: Option<oneshot::Sender<()>>) -> End {
        // A connection that ends meanwhile gives everything back as well.
        let _ = tokio::time::timeout(self.core.options.timeout, live.stop()).await;
        End::Stopped(waiting)
    }
}

/// The next message, once there is room for it; or why there is none any more, where it
/// is not that nobody takes jobs.
async fn next<'j>(
    jobs: &'j mpsc::Sender<Result<Delivery>>,
    live: &mut Live,
) -> std::result::Result<(mpsc::Permit<'j, Result<Delivery>>, Message), Option<String>> {
    let room = jobs.reserve().await.map_err(|_| None)?;
    let message = live.next().await.map_err(Some)?;
    Ok((room, message))
}
