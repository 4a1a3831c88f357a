//! Forwards the messages of one subscription to a consumer of jobq, as deliveries.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::coop::consume_budget;
use tokio_util::task::TaskTracker;

use super::counted::Counted;
use super::delivery::Builder;
use super::live::Opener;
use super::shared::Shared;
use super::subscription::Subscription;
use super::valve::{ToldPause, Valve};
use crate::background;
use crate::engine::{Delivery, Intake, Interruption, Pause};
use crate::error::{Error, Result};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::SupervisedConnection;

/// How many deliveries are forwarded before orders are looked for again.
const READY: usize = 64;

/// Starts to consume a queue, whose deliveries go to `jobs`. The consumer is active when this returns,
/// unless the valve is shut.
pub(super) async fn consume(
    shared: Arc<Shared>,
    opener: Opener,
    builder: Builder,
    prefetch: u16,
    counted: Arc<Counted>,
    jobs: mpsc::UnboundedSender<Result<Delivery>>,
) -> Result<FeedIntake> {
    let place = opener.place;
    let (controls, orders) = mpsc::unbounded_channel();
    let valve = opener.valve.clone();
    let link = opener.line.readable(place).await?;
    let (sending, interruptions) =
        (opener.sessions.sending().clone(), opener.interruptions.subscribe());
    let name = opener.tag.to_string();
    let mut told = ToldPause::new(valve.as_ref());
    let subscription = Subscription::new(opener, prefetch, Arc::clone(&counted));
    let (broker, doing) = (Arc::clone(&shared.broker), doing(place.queue()));
    let up = broker.in_time(&doing, link.up()).await?;
    if let Some(valve) = &valve {
        // It waits for as long as is sensible, however short the timeout of the client is.
        valve.recheck().await;
    }
    let intake = FeedIntake {
        orders: controls,
        sending: sending.clone(),
        interruptions,
        pauses: told.subscribe(),
        valve,
        name,
        counted,
    };
    let pause = told.current();
    let mut feed = Feed { shared, subscription, builder, told, jobs, orders };
    match pause {
        Some(pause) => feed.told.tell(Some(pause)),
        None if prefetch == 0 => {}
        None => broker.in_time(&doing, begin(&mut feed.subscription, &link, up)).await?,
    }
    let tasks = feed.shared.tasks.clone();
    background::spawn(tasks.track_future(feed.run(sending)));
    Ok(intake)
}

/// Begins to consume on this connection, or on the next one if this one ends meanwhile.
async fn begin(
    subscription: &mut Subscription,
    link: &SupervisedConnection,
    up: Arc<ConnectionEpoch>,
) -> Result<()> {
    match subscription.begin(&up).await {
        Err(error) if up.has_ended(&error) => {
            link.lost(up.number).await;
            subscription.begin(&link.up().await?).await
        }
        begun => begun,
    }
}

/// The words for starting to consume a queue in errors.
pub(super) fn doing(queue: &str) -> String {
    format!("consuming queue `{queue}`")
}

/// The consumer's side of a feed.
#[derive(Debug)]
pub(super) struct FeedIntake {
    orders: mpsc::UnboundedSender<Order>,
    sending: TaskTracker,
    interruptions: watch::Receiver<Option<Interruption>>,
    pauses: watch::Receiver<Option<Pause>>,
    valve: Option<Arc<dyn Valve>>,
    /// The name of the consumer that the broker shows.
    name: String,
    counted: Arc<Counted>,
}

#[derive(Debug)]
enum Order {
    /// The sender is dropped when this is done.
    Prefetch(u16, oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
}

#[async_trait]
impl Intake for FeedIntake {
    async fn set_prefetch(&self, prefetch: u16) {
        let (changed, done) = oneshot::channel();
        let _ = self.orders.send(Order::Prefetch(prefetch, changed));
        if prefetch == 0 {
            // An error means that it has stopped, or that this is done.
            let _ = done.await;
        }
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
        let name = match &self.valve {
            Some(valve) => (!valve.is_shut()).then(|| self.name.clone()),
            None => self.counted.current(),
        };
        name.into_iter().collect()
    }

    async fn settled(&self) {
        self.sending.close();
        self.sending.wait().await;
    }
}

/// Forwards the deliveries of one queue to their consumer.
struct Feed {
    shared: Arc<Shared>,
    subscription: Subscription,
    builder: Builder,
    told: ToldPause,
    jobs: mpsc::UnboundedSender<Result<Delivery>>,
    orders: mpsc::UnboundedReceiver<Order>,
}

impl Feed {
    async fn run(mut self, sending: TaskTracker) {
        self.bring_all().await;
        if self.subscription.line().is_own() {
            // Its jobs may still run, and their outcomes go through this connection.
            sending.close();
            sending.wait().await;
            self.subscription.line().close().await;
        }
    }

    async fn bring_all(&mut self) {
        let context = Arc::clone(self.subscription.context());
        let closing = self.shared.broker.closing().clone();
        loop {
            let (has_room, is_short) = (!context.in_flight.is_full(), self.subscription.is_short());
            context.in_flight.watch(is_short);
            tokio::select! {
                biased;
                () = closing.cancelled() => return self.stop().await,
                order = self.orders.recv() => match order {
                    Some(Order::Prefetch(prefetch, changed)) => {
                        self.set_prefetch(prefetch).await;
                        drop(changed);
                    }
                    Some(Order::Stop(waiting)) => {
                        self.stop().await;
                        drop(waiting);
                        return;
                    }
                    None => return self.stop().await,
                },
                pause = self.told.next() => self.turn(pause).await,
                () = context.in_flight.freed(), if !has_room || is_short => (),
                next = self.subscription.next(has_room) => match next {
                    Ok(taken) => {
                        self.forward(self.builder.delivery(taken));
                        self.bring_ready();
                        // The only point at which the task yields while there are messages.
                        consume_budget().await;
                    }
                    Err(error) => return self.fail(error),
                },
            }
        }
    }

    /// Forwards the messages that have arrived, without waiting for anything else.
    fn bring_ready(&mut self) {
        for _ in 0..READY {
            if self.subscription.context().in_flight.is_full() {
                return;
            }
            let Some(taken) = self.subscription.ready() else {
                return;
            };
            self.forward(self.builder.delivery(taken));
        }
    }

    /// Forwards a delivery to the consumer. If that is dropped, the delivery is requeued.
    fn forward(&self, delivery: Delivery) {
        let _ = self.jobs.send(Ok(delivery));
    }

    /// Sends the consumer the error that ends it.
    fn fail(&self, error: Error) {
        if !error.is_closed() {
            // A dropped consumer needs no error.
            let _ = self.jobs.send(Err(error));
        }
    }

    /// Takes this many jobs at most from now on. With 0 the consumer ends until there is another
    /// prefetch, and what it has taken is forwarded.
    async fn set_prefetch(&mut self, prefetch: u16) {
        if prefetch == 0 {
            for delivery in self.cancel().await {
                self.forward(delivery);
            }
        }
        self.subscription.context().in_flight.set_limit(prefetch);
        self.subscription.set_prefetch(prefetch);
        if self.told.is_open() {
            self.subscription.resume();
        }
    }

    /// Follows a pause of the queue, or its end.
    async fn turn(&mut self, pause: Option<Pause>) {
        let Some(pause) = pause else {
            self.told.tell(None);
            self.subscription.resume();
            return;
        };
        let untaken = self.cancel().await;
        self.told.tell(Some(pause));
        if self.builder.solo.is_some() {
            // One that was started is forwarded: the worker's release undoes its start.
            for delivery in untaken {
                self.forward(delivery);
            }
        }
    }

    /// Ends the consumer and requeues its untaken messages.
    async fn stop(&mut self) {
        // An unsettled delivery is requeued when it is dropped.
        drop(self.cancel().await);
    }

    /// Ends the consumer, and returns its untaken deliveries. A broker that does not answer in time
    /// may send more until it does: those are forwarded, and released where nobody takes them.
    async fn cancel(&mut self) -> Vec<Delivery> {
        let builder = self.builder.clone();
        let cancelling = self.subscription.cancel();
        let mut untaken = Box::pin(async move {
            let taken = cancelling.await.into_iter();
            taken.map(|taken| builder.delivery(taken)).collect::<Vec<_>>()
        });
        let broker = &self.shared.broker;
        if let Ok(untaken) = tokio::time::timeout(broker.timeout(), &mut untaken).await {
            return untaken;
        }
        tracing::warn!(
            queue = self.subscription.context().queue,
            "consumer cancellation timed out; jobs delivered before the broker's answer are \
             returned to the queue"
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
