//! The engine for `amqp://` and `amqps://` URLs: RabbitMQ, through `lapin`.
//!
//! The path of a job, by file:
//!
//! * **Enqueue.** `publish/enqueue` takes the route of the job (`topology/declared`, or
//!   `topology/routing` for a delayed one), `message/properties` encodes it, `publish/publisher`
//!   queues it for `publish/sender`, and `publish/confirm` sends it and awaits the confirm.
//! * **Delivery.** `consume/subscription` takes the message from its channel, `message/properties` and
//!   `message/deaths` decode it, and the worker gets it with the number of the attempt.
//! * **Settlement.** `consume/settle` acknowledges it (`consume/acks` determines when), or rejects
//!   it, so that the broker moves it to the tier in its key, or publishes it again
//!   (`message/properties/republish`) for another wait, a solo run, or the failed jobs.
//! * **Stray.** Unroutable messages reach the orphan queue, from which `stray` sends them again.
//!
//! `topology` names the queues and exchanges of a job, and `topology/declarer` declares them.
//! `connection` keeps the connections up, and `lapin` has workarounds for the client library. Each
//! module uses only those below it, from `values` and `errors` up to `admin` and `stray`. What watches
//! and steers jobs is in `admin`, and the path of a job knows none of it.

mod admin;
mod connection;
mod consume;
mod errors;
#[cfg(all(feature = "testing", feature = "sqlite"))]
pub(crate) mod invariants;
mod lapin;
mod message;
mod publish;
mod seat;
mod stray;
pub(crate) mod topology;
mod values;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::admin::Administration;
#[cfg(feature = "management")]
use self::admin::doctor::Management;
use self::admin::provision::Provision;
use self::connection::address::Address;
use self::connection::broker::Broker;
use self::connection::identity::Identity;
use self::connection::probe;
use self::connection::probe::Carrier;
use self::connection::supervised::Target;
use self::connection::tls::Tls;
use self::consume::Consumers;
use self::errors::is_forbidden;
use self::publish::{Enqueuer, Publisher};
use self::seat::RabbitSeats;
use self::stray::Strays;
use self::topology::declarer::{DECLARING, Declarer};
use self::topology::levels;
use self::topology::memory::Declared;
use self::topology::names::Names;
use self::topology::probes::node_probe;
use self::topology::requirements::Wanted;
use self::topology::routing_key;
use self::topology::upkeep;
use crate::background;
use crate::clock::Clock;
use crate::engine::{
    Administer, Admit, Capabilities, Consume, Consumer, Depart, Diagnose, Engine, EngineOptions,
    NotPushed, Pushing, QueueSpec, Seats,
};
use crate::error::Result;
use crate::job::{Envelope, EventEnvelope, Priority, check_name, check_pattern};
use crate::metrics::ConnectionMetrics;
use crate::period;

pub use self::admin::provision::diff::{Difference, TopologyDiff};
pub use self::admin::provision::{Applied, Pruned};
pub use self::topology::plan::Topology;

/// Connects to a broker.
///
/// # Errors
///
/// An invalid URL, unusable certificates, a broker that cannot be reached or refuses.
pub(crate) async fn connect(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    background::handle()?;
    let mut address = Address::parse(url, options.timeout)?;
    let identity = match &options.credentials {
        None => None,
        Some(source) => {
            address = address.without_user()?;
            Some(Arc::new(Identity::new(source.clone(), options.timeout)))
        }
    };
    let tls = Tls::new(&options.certificates, &address)?;
    #[cfg(feature = "management")]
    let management = match &options.management {
        Some(url) => Some(Management::new(url, &address, identity.clone(), &options)?),
        None => None,
    };
    let metrics = ConnectionMetrics::new();
    let target = Target { address, tls, identity, timeout: options.timeout, metrics };
    let broker = Broker::connect(
        target,
        options.connection_name,
        options.clock,
        options.is_lazy,
        options.fail_fast_after,
    )
    .await?;
    let (broker, names) = (Arc::new(broker), Names::new(options.namespace));
    probe::watch(broker.publishing(), broker.target(), Carrier::Itself, node_probe(&names));
    let known = Arc::new(Declared::new(names));
    let publishing = broker.publishing().clone();
    let patience = broker.patience().clone();
    let publisher = Publisher::spawn(publishing, patience, Arc::clone(&known), options.timeout);
    let declarer = Arc::new(Declarer::new(Arc::clone(&broker), known));
    let enqueuer =
        Arc::new(Enqueuer::new(Arc::clone(&broker), Arc::clone(&declarer), Arc::clone(&publisher)));
    let admin = Administration::new(
        &broker,
        &declarer,
        &publisher,
        &enqueuer,
        #[cfg(feature = "management")]
        management,
    );
    Ok(Arc::new(Rabbit {
        seats: Arc::new(RabbitSeats::new(
            Arc::clone(&broker),
            Arc::clone(&declarer),
            Arc::clone(&enqueuer),
        )),
        enqueuer,
        consumers: Arc::new(Consumers::new(
            Arc::clone(&broker),
            Arc::clone(&declarer),
            Arc::clone(&publisher),
        )),
        publisher,
        admin: Arc::new(admin),
        broker,
        declarer,
    }))
}

/// The parts of the engine.
#[derive(Debug)]
pub(crate) struct Rabbit {
    broker: Arc<Broker>,
    declarer: Arc<Declarer>,
    enqueuer: Arc<Enqueuer>,
    consumers: Arc<Consumers>,
    seats: Arc<RabbitSeats>,
    publisher: Arc<Publisher>,
    admin: Arc<Administration>,
}

impl Rabbit {
    /// The topology of the broker.
    pub(crate) fn provision(&self) -> Provision<'_> {
        self.admin.provision()
    }

    /// Starts what an engine with consumers keeps up: it moves strays, and declares again what was
    /// deleted.
    fn start_upkeep(&self) -> Result<()> {
        let Self { broker, declarer, publisher, consumers, .. } = self;
        let strays = Strays {
            broker: Arc::clone(broker),
            declarer: Arc::clone(declarer),
            publisher: Arc::clone(publisher),
            limited: Arc::clone(consumers.limited()),
        };
        consumers.spawn(stray::run(strays, consumers.strays(stray::PREFETCH)?));
        consumers.spawn(upkeep::run(Arc::clone(broker), Arc::clone(declarer)));
        Ok(())
    }
}

/// Ends the seats, the consumers and the control queue, then the connections.
async fn close(
    broker: &Broker,
    seats: &RabbitSeats,
    consumers: &Consumers,
    admin: &Administration,
) {
    broker.closing().cancel();
    seats.close().await;
    consumers.close().await;
    admin.close().await;
    broker.publishing().close().await;
}

#[async_trait]
impl Engine for Rabbit {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        for queue in queues {
            check_name("queue", &queue.name)?;
            queue.patterns.iter().try_for_each(|pattern| check_pattern(pattern))?;
        }
        let declaring = self.declarer.declare(Wanted::queues(queues));
        self.broker.patiently(DECLARING, declaring).await
    }

    async fn declare_delays(&self, longest: Duration) -> Result<()> {
        let levels = levels::needed(period::millis(longest));
        let declaring = self.declarer.declare(Wanted::levels(levels));
        self.broker.patiently(DECLARING, declaring).await
    }

    async fn ready(&self) -> Result<()> {
        let connected = async { self.broker.up().await.map(drop) };
        self.broker.unless_blocked("waiting for the broker", connected).await
    }

    async fn has_queue(&self, queue: &str, priority: Priority) -> Result<bool> {
        let known = self.declarer.known();
        let is_known = known.part(queue).is_some();
        if is_known && (priority == Priority::Normal || known.has_priorities(queue)) {
            return Ok(true);
        }
        let lane = known.names().work(&routing_key::lane(queue, priority));
        let looking = async {
            let up = self.broker.up().await?;
            known.missing_queues.has_queue(&up, &lane).await
        };
        match self.broker.unless_blocked("looking for a queue", looking).await {
            // A user who may only enqueue, on RabbitMQ 4.3.
            Err(error) if is_forbidden(&error) => Ok(true),
            found => found,
        }
    }

    fn push(&self, job: Envelope) -> Pushing {
        if let Err(closed) = self.broker.check_open() {
            return Box::pin(ready(Err(closed)));
        }
        self.enqueuer.push(job)
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        if let Err(closed) = self.broker.check_open() {
            return jobs.map(|_| closed.clone()).enumerate().collect();
        }
        self.enqueuer.push_all(jobs).await
    }

    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        self.broker.check_open()?;
        self.enqueuer.publish(event, mandatory).await
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        if self.consumers.connect(what.queue.as_str()).await? {
            self.start_upkeep()?;
        }
        let pool = what.pool;
        let steering = |place| self.admin.steering(pool, place);
        self.consumers.consume(what, steering).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().solo().events()
    }

    fn system(&self) -> &'static str {
        "rabbitmq"
    }

    fn clock(&self) -> Clock {
        self.broker.clock().clone()
    }

    fn administer(&self) -> Option<&dyn Administer> {
        Some(&*self.admin)
    }

    fn diagnose(&self) -> Option<&dyn Diagnose> {
        Some(&*self.admin)
    }

    fn seats(&self) -> Option<&dyn Seats> {
        Some(&*self.seats)
    }

    fn admit(&self) -> Option<&dyn Admit> {
        Some(&*self.admin)
    }

    fn depart(&self) -> Option<&dyn Depart> {
        Some(&*self.admin)
    }

    async fn close(&self) {
        close(&self.broker, &self.seats, &self.consumers, &self.admin).await;
    }
}

impl Drop for Rabbit {
    /// The last reference ends the engine, even if it was not closed.
    fn drop(&mut self) {
        self.broker.closing().cancel();
        let (broker, seats) = (Arc::clone(&self.broker), Arc::clone(&self.seats));
        let (consumers, admin) = (Arc::clone(&self.consumers), Arc::clone(&self.admin));
        background::spawn(async move { close(&broker, &seats, &consumers, &admin).await });
    }
}
