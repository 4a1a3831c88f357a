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
//! * **Failed.** `failed` lists, discards and puts back; one `failed/pass` takes each job once.
//! * **Control.** `control` asks pools, and tells them of pauses: see its page.
//! * **Stray.** Unroutable messages reach the orphan queue, from which `stray` sends them again.
//!
//! `topology` names the queues and exchanges of a job, and `topology/declarer` declares them.
//! `connection` keeps the connections up, and `lapin` has workarounds for the client library. Each
//! module uses only those below it, from `values` and `errors` up to `stray`.

mod connection;
mod consume;
mod control;
mod counts;
mod doctor;
mod errors;
mod failed;
mod figures;
#[cfg(all(feature = "testing", feature = "sqlite"))]
pub(crate) mod invariants;
mod lapin;
mod message;
mod provision;
mod publish;
#[cfg(all(feature = "testing", feature = "sqlite"))]
mod roster;
mod stray;
mod subscribers;
pub(crate) mod topology;
mod values;
mod waits;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryFutureExt;

use self::connection::address::Address;
use self::connection::agreement::Agreement;
use self::connection::broker::Broker;
use self::connection::link::Target;
use self::connection::probe::Carrier;
use self::connection::tls::Tls;
use self::connection::{probe, server_properties};
use self::consume::Consumers;
use self::control::{Control, examine_clocks};
#[cfg(feature = "management")]
use self::doctor::Management;
use self::doctor::{Doctor, Listing, Unseen};
use self::failed::Failed;
use self::figures::Figures;
use self::provision::Provision;
use self::publish::{Enqueuer, Events, Publisher};
use self::roster::Roster;
use self::stray::Strays;
use self::subscribers::Subscribers;
use self::topology::declared::Declared;
use self::topology::declarer::Declarer;
use self::topology::levels;
use self::topology::names::Names;
use self::topology::passive::Absent;
use self::topology::probes::node_probe;
use self::topology::queue_types::QueueTypes;
use self::topology::requirements::Wanted;
use self::topology::upkeep;
use crate::background;
use crate::clock::Clock;
use crate::engine::{
    About, Administer, Answers, Ask, Capabilities, Consume, Consumer, Controlled, Counts, Diagnose,
    Engine, EngineOptions, Membership, NotPushed, Part, Pause, Pushed, Pushing, QueueNames,
    QueueSpec, Read, Visit, Visited, run_to_end,
};
use crate::error::{Error, Result};
use crate::finding::{Finding, Report};
use crate::job::{Envelope, EventEnvelope, check_name, check_pattern};
use crate::metrics::ConnectionMetrics;
use crate::period;

pub use self::provision::diff::{Difference, TopologyDiff};
pub use self::provision::{Applied, Pruned};
pub use self::topology::declarations::Topology;

/// Connects to a broker.
///
/// # Errors
///
/// An invalid URL, unusable certificates, a broker that cannot be reached or refuses.
pub(crate) async fn connect(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    background::handle()?;
    let address = Address::parse(url, options.timeout)?;
    let tls = Tls::new(&options.certificates, &address)?;
    #[cfg(feature = "management")]
    let management = match &options.management {
        Some(url) => Some(Management::new(url, &address, &options)?),
        None => None,
    };
    let metrics = ConnectionMetrics::new();
    let target = Target { address, tls, timeout: options.timeout, metrics };
    let broker =
        Broker::connect(target, options.connection_name, options.clock, options.is_lazy).await?;
    let (broker, names) = (Arc::new(broker), Names::new(options.namespace));
    probe::watch(broker.publishing(), broker.target(), Carrier::Itself, node_probe(&names));
    let agreement = Agreement::new(node_probe(&names));
    let (known, absent) = (Arc::new(Declared::new(names.clone())), Arc::<Absent>::default());
    let publishing = broker.publishing().clone();
    let publisher = Publisher::spawn(publishing, Arc::clone(&known), options.timeout);
    let declarer = Declarer::new(Arc::clone(&broker), Arc::clone(&known), Arc::clone(&absent));
    let declarer = Arc::new(declarer);
    let queue_types = Arc::new(QueueTypes::new(Arc::clone(&broker), names.clone()));
    let control = Control::new(
        Arc::clone(&broker),
        Arc::clone(&known),
        Arc::clone(&absent),
        Arc::clone(&queue_types),
    );
    let control = Arc::new(control);
    let failed = Failed::new(
        Arc::clone(&broker),
        names,
        Arc::clone(&absent),
        Arc::clone(&publisher),
        Arc::clone(&queue_types),
    );
    let doctor = Doctor {
        broker: Arc::clone(&broker),
        known,
        queue_types,
        #[cfg(feature = "management")]
        management,
        listing: Listing::default(),
    };
    Ok(Arc::new(Rabbit {
        enqueuer: Arc::new(Enqueuer::new(
            Arc::clone(&declarer),
            Arc::clone(&publisher),
            broker.clock().clone(),
        )),
        events: Events::new(Arc::clone(&broker), Arc::clone(&declarer), Arc::clone(&publisher)),
        subscribers: Arc::new(Subscribers::new(
            Arc::clone(&broker),
            Arc::clone(&declarer),
            Arc::clone(&control),
        )),
        consumers: Arc::new(Consumers::new(
            Arc::clone(&broker),
            Arc::clone(&declarer),
            Arc::clone(&publisher),
        )),
        publisher,
        control,
        failed: Arc::new(failed),
        doctor,
        broker,
        declarer,
        absent,
        roster: Roster::default(),
        agreement,
    }))
}

/// Why it is unknown whether jobs are between the parts of a queue.
const NOT_SHOWN: &str = "AMQP does not show jobs that the broker has not passed on yet: give the URL of \
     the management API (`ClientBuilder::management` or JOBQ_MANAGEMENT_URL)";

/// The parts of the engine.
#[derive(Debug)]
pub(crate) struct Rabbit {
    broker: Arc<Broker>,
    declarer: Arc<Declarer>,
    absent: Arc<Absent>,
    roster: Roster,
    agreement: Agreement,
    enqueuer: Arc<Enqueuer>,
    events: Events,
    subscribers: Arc<Subscribers>,
    consumers: Arc<Consumers>,
    publisher: Arc<Publisher>,
    control: Arc<Control>,
    failed: Arc<Failed>,
    doctor: Doctor,
}

impl Rabbit {
    /// The topology of the broker.
    pub(crate) fn provision(&self) -> Provision<'_> {
        let Self { broker, declarer, doctor, control, .. } = self;
        Provision { broker, declarer, doctor, control }
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

    /// The figures of queues.
    fn figures(&self) -> Figures<'_> {
        let Self { broker, declarer, absent, doctor, control, roster, agreement, .. } = self;
        Figures { broker, known: declarer.known(), absent, doctor, control, roster, agreement }
    }
}

/// Ends the consumers and the control queue, then the connections.
async fn close(broker: &Broker, consumers: &Consumers, control: &Control) {
    broker.closing().cancel();
    consumers.close().await;
    control.close().await;
    broker.publishing().close().await;
}

#[async_trait]
impl Engine for Rabbit {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        for queue in queues {
            check_name("queue", &queue.name)?;
            queue.patterns.iter().try_for_each(|pattern| check_pattern(pattern))?;
        }
        self.declarer.declare(Wanted::queues(queues)).await
    }

    async fn declare_delays(&self, longest: Duration) -> Result<()> {
        let levels = levels::needed(period::millis(longest));
        self.declarer.declare(Wanted::levels(levels)).await
    }

    fn push(&self, job: Envelope) -> Pushing {
        if let Err(closed) = self.broker.check_open() {
            return Box::pin(ready(Err(closed)));
        }
        match self.enqueuer.push_at_once(job) {
            Ok(publishing) => Box::pin(publishing.map_ok(|()| Pushed::new())),
            Err(later) => {
                let enqueuer = Arc::clone(&self.enqueuer);
                Box::pin(async move { enqueuer.push_later(later).await.map(|()| Pushed::new()) })
            }
        }
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        if let Err(closed) = self.broker.check_open() {
            return jobs.map(|_| closed.clone()).enumerate().collect();
        }
        self.enqueuer.push_all(jobs).await
    }

    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        self.broker.check_open()?;
        self.events.publish(event, mandatory).await
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        if self.consumers.connect(what.queue.as_str()).await? {
            self.start_upkeep()?;
        }
        let steering = self.control.steering(&what);
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
        Some(self)
    }

    fn diagnose(&self) -> Option<&dyn Diagnose> {
        Some(self)
    }

    async fn close(&self) {
        close(&self.broker, &self.consumers, &self.control).await;
    }
}

#[async_trait]
impl Administer for Rabbit {
    async fn counts(&self, queue: &str) -> Result<Counts> {
        check_name("queue", queue)?;
        self.figures().counts(queue).await
    }

    async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        check_name("queue", queue)?;
        self.figures().parts(queue).await
    }

    async fn in_levels(&self) -> Result<Read<u64>> {
        self.figures().in_levels().await
    }

    async fn failed_visit(&self, queue: &str, visit: Visit) -> Result<Visited> {
        check_name("queue", queue)?;
        let (failed, queue) = (Arc::clone(&self.failed), queue.to_owned());
        run_to_end(async move { failed.visit(&queue, visit).await }).await
    }

    async fn queues(&self) -> Result<QueueNames> {
        self.figures().queues().await
    }

    fn trouble(&self) -> String {
        self.broker.publishing().trouble()
    }

    async fn pause(&self, queue: &str, pause: &Pause) -> Result<()> {
        check_name("queue", queue)?;
        self.control.pause(queue, pause).await
    }

    async fn repeat_pause(&self, queue: &str, pause: &Pause) -> Result<bool> {
        check_name("queue", queue)?;
        self.control.repeat_pause(queue, pause).await
    }

    async fn resume(&self, queue: &str) -> Result<bool> {
        check_name("queue", queue)?;
        self.control.resume(queue).await
    }

    async fn paused(&self, queue: &str) -> Result<Read<Option<Pause>>> {
        check_name("queue", queue)?;
        self.control.paused(queue).await
    }

    async fn join(&self, pool: Arc<dyn Controlled>) -> Result<Membership> {
        self.broker.within("joining the pools that are asked", self.control.join(pool)).await
    }

    async fn ask(&self, ask: Ask) -> Result<Answers> {
        self.figures().ask(ask).await
    }

    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()> {
        check_name("queue", queue)?;
        let doing = format!("ending the subscription of queue `{queue}` to `{pattern}`");
        self.broker.within(&doing, self.subscribers.unsubscribe(queue, pattern)).await
    }

    async fn unseen(&self, queue: &str) -> Result<Option<String>> {
        check_name("queue", queue)?;
        match self.doctor.unseen(queue, &self.control.reports().await).await {
            Unseen::Nothing => Ok(None),
            Unseen::Maybe(why) => Ok(Some(why)),
            Unseen::Unknown => {
                let looking = self.subscribers.exists(queue);
                let doing = format!("looking for queue `{queue}`");
                let exists = self.broker.within(&doing, looking).await?;
                Ok(exists.then(|| NOT_SHOWN.to_owned()))
            }
        }
    }

    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64> {
        check_name("queue", &queue.name)?;
        let doing = format!("deleting queue `{}`", queue.name);
        let (subscribers, queue) = (Arc::clone(&self.subscribers), queue.clone());
        let name = queue.name.clone();
        // In between its subscriptions have ended, and are made again if it stays.
        let deleting = run_to_end(async move { subscribers.delete(&queue, force).await });
        let deleted = self.broker.within(&doing, deleting).await?;
        self.roster.forget(&name);
        Ok(deleted)
    }
}

#[async_trait]
impl Diagnose for Rabbit {
    async fn about(&self) -> About {
        let version = self.broker.publishing().version();
        let mut about = About::new(format!("RabbitMQ {}", version.as_deref().unwrap_or("?")));
        about.hold = server_properties::hold(version.as_deref());
        about
    }

    fn missing(&self) -> Option<Error> {
        self.declarer.known().missing()
    }

    async fn examine(&self, queues: &[QueueSpec]) -> Result<Report> {
        let reports = self.control.reports().await;
        let report = self.doctor.examine(queues, &reports).await?;
        Ok(report.with(examine_clocks(&reports)))
    }

    async fn examine_policies(&self, queues: &[QueueSpec]) -> Result<Vec<Finding>> {
        self.doctor.examine_policies(queues).await
    }
}

impl Drop for Rabbit {
    /// The last reference ends the engine, even if it was not closed.
    fn drop(&mut self) {
        self.broker.closing().cancel();
        let (broker, consumers) = (Arc::clone(&self.broker), Arc::clone(&self.consumers));
        let control = Arc::clone(&self.control);
        background::spawn(async move { close(&broker, &consumers, &control).await });
    }
}
