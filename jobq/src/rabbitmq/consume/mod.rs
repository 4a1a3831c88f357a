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
mod merged;
pub(crate) mod place;
pub(crate) mod session;
mod settle;
mod shared;
pub(crate) mod subscription;
pub(crate) mod valve;
mod verification;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::{OnceCell, mpsc};
use tokio::time::timeout;

use self::context::{InFlightCount, SettleContext};
use self::counted::Counted;
use self::delivery::Builder;
use self::feed::FeedIntake;
use self::interruption::Interruptions;
use self::line::Line;
use self::live::Opener;
use self::merged::MergedIntake;
use self::place::Place;
use self::session::Sessions;
use self::shared::Shared;
use self::subscription::Subscription;
use self::valve::Valve;
use crate::background;
use crate::engine::{Consume, Consumer, Delivery, Intake};
use crate::error::{Error, Result};
use crate::job::Priority;
use crate::rabbitmq::connection::broker::{Broker, on_living};
use crate::rabbitmq::connection::probe::{self, Carrier};
use crate::rabbitmq::connection::supervised::SupervisedConnection;
use crate::rabbitmq::errors::is_forbidden;
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

    /// Starts to consume a queue, once [connected](Self::connect): each of its lanes, or its solo jobs.
    pub(crate) async fn consume(
        &self,
        what: Consume,
        steering: impl Fn(Place) -> Steering,
    ) -> Result<Consumer> {
        let (jobs, deliveries) = mpsc::unbounded_channel();
        let queue = what.queue.as_str();
        let places = if what.solo { vec![Place::Solo(queue)] } else { self.lanes(queue).await? };
        // A feed that asks for a pause may wait for the answer.
        let begun = places.into_iter().map(|place| {
            let feed = self.feed(&what, place, steering(place), jobs.clone());
            async move {
                match feed.await {
                    Err(error) if place.is_of_priority() && is_forbidden(&error) => {
                        may_not_consume(place.queue(), &error);
                        Ok(None)
                    }
                    feed => feed.map(Some),
                }
            }
        });
        let begun = try_join_all(begun.collect::<Vec<_>>()).await?;
        let mut feeds: Vec<_> = begun.into_iter().flatten().collect();
        let intake: Box<dyn Intake> = match feeds.pop() {
            Some(only) if feeds.is_empty() => Box::new(only),
            last => Box::new(MergedIntake::new(feeds.into_iter().chain(last).collect())),
        };
        Ok(Consumer::new(deliveries, intake))
    }

    /// The lanes of a queue that exist. Their tiers are declared, as for a queue of this client whose
    /// jobs have priorities.
    async fn lanes(&self, queue: &'static str) -> Result<Vec<Place>> {
        let Shared { broker, declarer, .. } = &*self.shared;
        let known = declarer.known();
        // Not on the connection for publishing, which may be blocked by an alarm.
        let link = self.link.get().cloned().ok_or_else(crate::engine::closed)?;
        let looking =
            on_living(&link, |up| async move { known.finds_priorities(&up, queue, true).await });
        if !broker.in_time(&feed::doing(queue), looking).await? {
            return Ok(vec![Place::Work(queue, Priority::Normal)]);
        }
        let declared = match known.part(queue) {
            Some(part) => declarer.declare(part.with_priorities()).await,
            None => Ok(()),
        };
        match declared {
            Err(error) if is_forbidden(&error) => {
                may_not_consume(queue, &error);
                return Ok(vec![Place::Work(queue, Priority::Normal)]);
            }
            declared => declared?,
        }
        Ok(Priority::ALL.map(|priority| Place::Work(queue, priority)).to_vec())
    }

    /// Starts to consume one queue of the broker.
    async fn feed(
        &self,
        what: &Consume,
        place: Place,
        Steering { valve, counted }: Steering,
        jobs: mpsc::UnboundedSender<Result<Delivery>>,
    ) -> Result<FeedIntake> {
        let (prefetch, priority) = match place {
            Place::Solo(_) => (SOLO_PREFETCH, None),
            Place::Work(_, priority) => {
                (what.prefetch, Some(priority).filter(|priority| *priority != Priority::Normal))
            }
            Place::Orphan => (what.prefetch, None),
        };
        let shared = Arc::clone(&self.shared);
        let (limited, solo) = (Arc::clone(&shared.limited), what.solo.then(Arc::default));
        let builder = Builder { limited, solo, only_job: what.only_job, priority };
        let tag = what.pool.map(|pool| format!("jobq.{pool}.{}", place.key()));
        let opener = self.opener(place, prefetch, tag, valve)?;
        feed::consume(shared, opener, builder, prefetch, counted, jobs).await
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

fn may_not_consume(queue: &str, error: &Error) {
    tracing::warn!(queue, %error, "this user has no permission to consume the queue of a priority");
}
