//! Control: questions and orders to pools, their answers, and pauses of queues.
//!
//! Each client that has pools, asks, or pauses has one control [`queue`], on its publishing
//! connection. Questions go to all clients or to the one of a pool, which answer at once; so there
//! is no traffic while nobody asks. [`wire`] has the messages.
//!
//! A queue is paused if and only if `{ns}.paused` is bound to `{ns}.control.echo` for it. Bindings
//! are known to every node and need no leader. The [`gate`] of a queue publishes a message that
//! comes back through this binding, and then a fence, which always comes back: what comes before
//! the fence is the answer ([`pause`]).

mod accounted;
mod ask;
mod calls;
mod clocks;
mod gate;
mod pause;
mod pause_state;
mod queue;
mod record;
mod waits;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use lapin::Consumer;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use self::accounted::{CountedOfPools, accounted};
use self::calls::{Calls, Response};
pub(crate) use self::clocks::examine_clocks;
use self::gate::Gate;
use self::queue::{ControlQueue, publish};
use self::wire::{Message, address_key};
use crate::background;
use crate::engine::{Controlled, Membership, PoolId, Reply};
use crate::error::Result;
use crate::guard::{self, guarded, lock};
use crate::rabbitmq::admin::waits::Waits;
use crate::rabbitmq::connection::broker::{Broker, on_living};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::backoff;
use crate::rabbitmq::consume::Steering;
use crate::rabbitmq::consume::place::Place;
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::queue_types::QueueTypes;

/// How long an answer may take to be sent. Nobody waits longer for it.
const ANSWER: Duration = Duration::from_secs(10);
/// When a refused control queue is opened again: each refusal costs a channel number.
const REFUSED: Duration = Duration::from_secs(60);

/// How long the end of an engine waits for the end of its control queue.
const CLOSE: Duration = Duration::from_secs(1);

/// The control of an engine.
#[derive(Debug)]
pub(crate) struct Control {
    broker: Arc<Broker>,
    known: Arc<Declared>,
    queue_types: Arc<QueueTypes>,
    pools: Mutex<BTreeMap<PoolId, Arc<dyn Controlled>>>,
    calls: Calls,
    counted: CountedOfPools,
    gates: Mutex<HashMap<String, Weak<Gate>>>,
    waits: Waits,
    queue: tokio::sync::Mutex<Option<Arc<ControlQueue>>>,
}

impl Control {
    pub(crate) fn new(
        broker: Arc<Broker>,
        known: Arc<Declared>,
        queue_types: Arc<QueueTypes>,
    ) -> Self {
        Self {
            broker,
            known,
            queue_types,
            pools: Mutex::default(),
            calls: Calls::default(),
            counted: CountedOfPools::default(),
            gates: Mutex::default(),
            waits: Waits::default(),
            queue: tokio::sync::Mutex::default(),
        }
    }

    fn names(&self) -> &Names {
        self.known.names()
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<PoolId, Arc<dyn Controlled>>> {
        lock(&self.pools)
    }

    /// Makes a pool one of those that are asked.
    pub(crate) async fn join(self: &Arc<Self>, pool: Arc<dyn Controlled>) -> Result<Membership> {
        let id = pool.id();
        self.pools().insert(id, pool);
        let member = Member { control: Arc::clone(self), pool: id };
        // It binds its pools when it is opened, and this one was opened earlier otherwise.
        let adding = |up| async move { self.queue_on(up).await?.add(id).await };
        on_living(self.broker.publishing(), adding).await?;
        Ok(Membership::new(member))
    }

    /// The gate and the counter of a consumer, if it is of a pool.
    pub(crate) fn steering(self: &Arc<Self>, pool: Option<PoolId>, place: Place) -> Steering {
        let Some(pool) = pool else { return Steering::default() };
        let counted = self.counted.begin(pool, place.key());
        Steering { valve: Some(self.gate(place.queue())), counted }
    }

    /// The control queue, which is opened if there is none.
    async fn queue(self: &Arc<Self>) -> Result<Arc<ControlQueue>> {
        on_living(self.broker.publishing(), |up| self.queue_on(up)).await
    }

    /// The control queue on this connection.
    async fn queue_on(self: &Arc<Self>, up: Arc<ConnectionEpoch>) -> Result<Arc<ControlQueue>> {
        let mut current = self.queue.lock().await;
        let is_there =
            |queue: &&Arc<ControlQueue>| queue.up.number == up.number && !queue.over.is_cancelled();
        if let Some(queue) = current.as_ref().filter(is_there) {
            return Ok(Arc::clone(queue));
        }
        let kind = self.queue_types.temporary(up.version.as_deref()).await;
        let pools: Vec<_> = self.pools().keys().copied().collect();
        let opened = ControlQueue::open(up, self.names(), kind, &pools).await;
        if let Err(error) = &opened {
            self.queue_types.learn(error).await;
        }
        let (queue, consumer) = opened?;
        let queue = Arc::new(queue);
        background::spawn(Arc::clone(self).listen(Arc::clone(&queue), consumer));
        background::spawn(Arc::clone(self).probe_waits(Arc::clone(&queue)));
        *current = Some(Arc::clone(&queue));
        Ok(queue)
    }

    /// Deletes the control queue, if it would outlive its connection.
    pub(crate) async fn close(&self) {
        // One that is being opened ends by itself.
        let queue = self.queue.try_lock().ok().and_then(|mut queue| queue.take());
        if let Some(queue) = queue {
            let _ = timeout(CLOSE, queue.delete()).await;
        }
    }

    /// Receives the messages of a control queue. After its end it opens another one, if there are
    /// pools.
    fn listen(
        self: Arc<Self>,
        queue: Arc<ControlQueue>,
        consumer: Consumer,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let closing = self.broker.closing().clone();
            let listening = async {
                self.receive_all(&queue, consumer).await;
                queue.over.cancel();
                self.open_again().await;
            };
            closing.run_until_cancelled(listening).await;
        })
    }

    async fn receive_all(self: &Arc<Self>, queue: &ControlQueue, mut consumer: Consumer) {
        loop {
            tokio::select! {
                () = queue.up.over.cancelled() => return,
                () = queue.over.cancelled() => return,
                message = consumer.next() => match message {
                    Some(Ok(message)) if self.hears(&message) => {}
                    Some(Ok(message)) => self.receive(queue, &message.data),
                    Some(Err(_)) | None => return,
                },
            }
        }
    }

    async fn open_again(self: &Arc<Self>) {
        let mut waits = backoff();
        let mut warned = false;
        while !self.pools().is_empty() {
            sleep(waits.next().unwrap_or(REFUSED)).await;
            match self.queue().await {
                Ok(_) => {
                    // Orders may have been missed.
                    for gate in lock(&self.gates).values().filter_map(Weak::upgrade) {
                        gate.ask_again();
                    }
                    return;
                }
                Err(error) if error.is_connection() || error.is_timeout() => {
                    tracing::debug!(%error, "could not open the control queue; retrying");
                }
                Err(error) => {
                    if !std::mem::replace(&mut warned, true) {
                        tracing::warn!(
                            %error,
                            "pool control unavailable; orders and pauses do not reach this \
                             client's pools"
                        );
                    }
                    sleep(REFUSED).await;
                }
            }
        }
    }

    fn receive(self: &Arc<Self>, own: &ControlQueue, bytes: &[u8]) {
        match Message::read(bytes) {
            Ok(Message::Ask { number, reply_to, pool, question }) => {
                if reply_to == address_key(own.address) {
                    self.calls.pass_on(number, Response::Asked);
                }
                let pools = match pool {
                    Some(pool) => self.pools().get(&pool).cloned().into_iter().collect(),
                    None => self.pools().values().cloned().collect::<Vec<_>>(),
                };
                for member in pools {
                    let is_counted = pool.is_none();
                    let answering =
                        Arc::clone(self).answer(member, number, question.clone(), is_counted);
                    background::spawn(Arc::clone(self).send(reply_to.clone(), answering));
                }
            }
            Ok(Message::Answer { number, pool, consumers, reply }) => {
                self.calls.pass_on(number, Response::Answer(pool, consumers, Box::new(reply)));
            }
            Ok(Message::Echo { number }) => self.calls.pass_on(number, Response::Echo),
            Ok(Message::Fence { number }) => self.calls.pass_on(number, Response::Fence),
            Ok(Message::Paused { queue, pause }) => {
                // It may have a record now.
                self.known.missing_queues.forget(&self.names().pause_record(&queue));
                self.tell(&queue, |gate| gate.paused(pause));
            }
            Ok(Message::Resumed { queue }) => self.tell(&queue, Gate::resumed),
            Err(error) => tracing::debug!(error, "could not parse a control message"),
        }
    }

    fn tell(&self, queue: &str, tell: impl FnOnce(&Gate)) {
        let gate = lock(&self.gates).get(queue).and_then(Weak::upgrade);
        if let Some(gate) = gate {
            tell(&gate);
        }
    }

    /// Sends an answer, unless the broker takes nothing for now: it would accumulate here.
    async fn send(self: Arc<Self>, key: String, answering: impl Future<Output = Option<Message>>) {
        let sending = async {
            let Some(answer) = answering.await.filter(|_| !self.broker.publishing().is_blocked())
            else {
                return Ok(());
            };
            let up = self.broker.up().await?;
            publish(&up, &[(self.names().control(), key, &answer)]).await
        };
        if let Ok(Err(error)) = timeout(ANSWER, sending).await {
            tracing::debug!(%error, "could not answer a control message");
        }
    }

    /// The answer of a pool, from a thread of its own: one that is slow or panics holds up no other.
    async fn answer(
        self: Arc<Self>,
        pool: Arc<dyn Controlled>,
        number: u64,
        question: Value,
        is_counted: bool,
    ) -> Option<Message> {
        let answering = tokio::task::spawn_blocking(move || {
            let answered = guarded(|| {
                let id = pool.id();
                let answer = |ask: &_| {
                    let mut reply = pool.answer(ask);
                    if let Reply::Report(report) = &mut reply {
                        self.waits.add_to(report, self.broker.clock().elapsed());
                    }
                    reply
                };
                let (reply, report) = wire::answer(&question, is_counted, answer);
                let queues = report.map(|report| report.queues).unwrap_or_default();
                let consumers = accounted(&queues, |queue| self.counted.count(id, queue));
                Message::Answer { number, pool: id, consumers, reply }
            });
            answered.map_err(guard::dispose).ok()
        });
        answering.await.ok().flatten()
    }
}

/// A pool among those that are asked.
#[derive(Debug)]
struct Member {
    control: Arc<Control>,
    pool: PoolId,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.control.pools().remove(&self.pool);
        let (control, pool) = (Arc::clone(&self.control), self.pool);
        background::spawn(async move {
            let queue = control.queue.lock().await.clone();
            if let Some(queue) = queue.filter(|queue| !queue.over.is_cancelled()) {
                queue.remove(pool).await;
            }
        });
    }
}
