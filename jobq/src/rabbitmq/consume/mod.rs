//! Consuming: deliveries, prefetch, acknowledgements and settlements.
//!
//! A [`subscription`] takes the messages of one queue, over as many channels as needed, each with one
//! consumer ([`live`]), and a [`feed`] forwards them as [deliveries](delivery). [`settle`] settles
//! one, and the [`session`] of its channel sends the acknowledgements that [`acks`] determines. After
//! a suspension of the process, [`verification`] asks whether the messages are still this
//! consumer's.

pub(crate) mod acks;
mod context;
pub(crate) mod counted;
mod delivery;
mod feed;
mod interruption;
mod line;
mod live;
pub(crate) mod place;
pub(crate) mod session;
mod settle;
mod shared;
pub(crate) mod subscription;
pub(crate) mod valve;
mod verification;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::context::{InFlightCount, SettleContext};
use self::counted::Counted;
use self::delivery::Builder;
use self::interruption::Interruptions;
use self::line::Line;
use self::live::Opener;
use self::place::Place;
use self::session::Sessions;
use self::shared::Shared;
use self::subscription::Subscription;
use self::valve::Valve;
use crate::background;
use crate::engine::{Consume, Consumer};
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::probe::{self, Carrier};
use crate::rabbitmq::connection::supervised::SupervisedConnection;
use crate::rabbitmq::message::limited::LimitedQueues;
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::probes::node_probe;
use crate::rabbitmq::values::short;

/// The prefetch of the solo queue. It is high because a job whose start was recorded moves to the
/// end of the queue.
const SOLO_PREFETCH: u16 = 10_000;
/// How long the last acknowledgements may take when the engine is closed.
const LAST_ACKS_TIMEOUT: Duration = Duration::from_secs(2);

/// Who steers a consumer of a pool, and counts what the broker counts of it.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    pub(crate) valve: Option<Arc<dyn Valve>>,
    pub(crate) counted: Arc<Counted>,
}

/// The consumers of an engine.
#[derive(Debug)]
pub(crate) struct Consumers {
    shared: Arc<Shared>,
    /// Opened by the first consumer. Not the publishing connection, since the broker stops reading
    /// from connections that publish when it is short of memory or disk.
    link: OnceCell<SupervisedConnection>,
}

impl Consumers {
    pub(crate) fn new(
        broker: Arc<Broker>,
        declarer: Arc<Declarer>,
        publisher: Arc<Publisher>,
    ) -> Self {
        let shared = Arc::new(Shared::new(broker, declarer, publisher));
        Self { shared, link: OnceCell::new() }
    }

    /// Opens the connection for consuming, unless there is one. True on the first call.
    pub(crate) async fn connect(&self, queue: &str) -> Result<bool> {
        let mut is_first = false;
        let opening = async {
            let Shared { broker, .. } = &*self.shared;
            let link = broker.open("consuming").await?;
            probe::watch(&link, broker.target(), Carrier::Another, node_probe(self.names()));
            is_first = true;
            Ok(link)
        };
        let connecting = async { self.link.get_or_try_init(|| opening).await.map(|_| ()) };
        self.shared.broker.in_time(&feed::doing(queue), connecting).await?;
        Ok(is_first)
    }

    /// Starts to consume a queue, once [connected](Self::connect).
    pub(crate) async fn consume(&self, what: Consume, steering: Steering) -> Result<Consumer> {
        let Consume { queue, prefetch, solo, pool, only_job } = what;
        let (queue, shared) = (queue.as_str(), Arc::clone(&self.shared));
        let (place, prefetch) =
            if solo { (Place::Solo(queue), SOLO_PREFETCH) } else { (Place::Work(queue), prefetch) };
        let (limited, solo) = (Arc::clone(&shared.limited), solo.then(Arc::default));
        let builder = Builder { limited, solo, only_job };
        let tag = pool.map(|pool| format!("jobq.{pool}.{}", place.key()));
        let Steering { valve, counted } = steering;
        let opener = self.opener(place, prefetch, tag, valve)?;
        feed::consume(shared, opener, builder, prefetch, counted).await
    }

    /// The subscription to unroutable messages, once [connected](Self::connect).
    pub(crate) fn strays(&self, prefetch: u16) -> Result<Subscription> {
        let opener = self.opener(Place::Orphan, prefetch, None, None)?;
        Ok(Subscription::new(opener, prefetch, Arc::default()))
    }

    fn opener(
        &self,
        place: Place,
        prefetch: u16,
        tag: Option<String>,
        valve: Option<Arc<dyn Valve>>,
    ) -> Result<Opener> {
        let Shared { broker, declarer, publisher, tasks, ack_tasks, last_acks, troubles, .. } =
            &*self.shared;
        let link = self.link.get().cloned().ok_or_else(crate::engine::closed)?;
        let context = SettleContext {
            declarer: Arc::clone(declarer),
            publisher: Arc::clone(publisher),
            queue: place.queue(),
            clock: broker.clock().clone(),
            in_flight: InFlightCount::new(prefetch),
            tasks: tasks.clone(),
        };
        Ok(Opener {
            place,
            tag: short(tag.unwrap_or_else(|| "0".to_owned()))?,
            line: Line::new(broker, self.names(), link),
            valve,
            sessions: Sessions::new(context, ack_tasks.clone(), last_acks.clone()),
            interruptions: Interruptions::new(broker.clock().clone()),
            troubles: Arc::clone(troubles),
        })
    }

    fn names(&self) -> &Names {
        self.shared.declarer.known().names()
    }

    /// The queues that a policy was seen to limit.
    pub(crate) fn limited(&self) -> &Arc<LimitedQueues> {
        &self.shared.limited
    }

    /// Runs work until its end, which the end of the engine waits for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        background::spawn(self.shared.tasks.track_future(work));
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
