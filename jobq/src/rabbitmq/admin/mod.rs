//! Administration: what watches and steers jobs, beside their path.
//!
//! * [`control`] asks pools, pauses queues, and has the [`waits`] probed.
//! * [`failed`] lists, discards and retries failed jobs; one pass takes each once.
//! * [`figures`] tells how many jobs there are; [`roster`] knows the names of queues, and
//!   [`subscribers`] ends subscriptions.
//! * [`admit`] publishes the jobs that come from another engine, and [`departing`] consumes those that
//!   leave for one.
//! * [`doctor`] looks for settings that weaken a guarantee; [`provision`] compares a broker with
//!   declarations.

mod admit;
pub(crate) mod control;
mod departing;
pub(crate) mod doctor;
pub(crate) mod failed;
pub(crate) mod figures;
pub(crate) mod provision;
pub(crate) mod roster;
pub(crate) mod subscribers;
pub(crate) mod waits;

use std::sync::Arc;

use async_trait::async_trait;

use self::admit::Arrivals;
use self::control::{Control, examine_clocks};
use self::departing::Leaving;
#[cfg(feature = "management")]
use self::doctor::Management;
use self::doctor::{Doctor, Listing, Unseen};
use self::failed::Failed;
use self::figures::Figures;
use self::provision::Provision;
use self::roster::Roster;
use self::subscribers::Subscribers;
use crate::engine::{
    About, Administer, Admission, Admit, Answers, Ask, Controlled, Counts, Depart, Departing,
    Diagnose, Figure, Membership, NotPushed, Part, Pause, PoolId, PoolReport, QueueNames,
    QueueSpec, Scope, Visit, Visited, run_to_end,
};
use crate::error::{Error, Result};
use crate::finding::{Finding, Report};
use crate::job::check_name;
use crate::rabbitmq::connection::agreement::Agreement;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::server_properties;
use crate::rabbitmq::consume::Steering;
use crate::rabbitmq::consume::place::Place;
use crate::rabbitmq::publish::{Enqueuer, Publisher};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::probes::node_probe;
use crate::rabbitmq::topology::queue_types::QueueTypes;

/// Why it is unknown whether jobs are between the parts of a queue.
const NOT_SHOWN: &str = "AMQP does not show jobs that the broker has not dead-lettered yet: set \
     the URL of the management API (`ClientBuilder::management` or JOBQ_MANAGEMENT_URL)";

/// The administration of an engine.
#[derive(Debug)]
pub(crate) struct Administration {
    broker: Arc<Broker>,
    declarer: Arc<Declarer>,
    roster: Roster,
    agreement: Agreement,
    subscribers: Arc<Subscribers>,
    control: Arc<Control>,
    failed: Arc<Failed>,
    arrivals: Arrivals,
    doctor: Doctor,
}

impl Administration {
    pub(crate) fn new(
        broker: &Arc<Broker>,
        declarer: &Arc<Declarer>,
        publisher: &Arc<Publisher>,
        enqueuer: &Arc<Enqueuer>,
        #[cfg(feature = "management")] management: Option<Management>,
    ) -> Self {
        let known = declarer.known();
        let queue_types = QueueTypes::new(Arc::clone(broker), known.names().clone());
        let queue_types = Arc::new(queue_types);
        let control = Control::new(Arc::clone(broker), Arc::clone(known), Arc::clone(&queue_types));
        let control = Arc::new(control);
        let failed = Failed::new(
            Arc::clone(broker),
            Arc::clone(known),
            Arc::clone(publisher),
            Arc::clone(&queue_types),
        );
        let arrivals = Arrivals {
            broker: Arc::clone(broker),
            declarer: Arc::clone(declarer),
            publisher: Arc::clone(publisher),
            enqueuer: Arc::clone(enqueuer),
        };
        let doctor = Doctor {
            broker: Arc::clone(broker),
            known: Arc::clone(known),
            queue_types,
            #[cfg(feature = "management")]
            management,
            listing: Listing::default(),
        };
        let subscribers =
            Subscribers::new(Arc::clone(broker), Arc::clone(declarer), Arc::clone(&control));
        Self {
            broker: Arc::clone(broker),
            declarer: Arc::clone(declarer),
            roster: Roster::default(),
            agreement: Agreement::new(node_probe(known.names())),
            subscribers: Arc::new(subscribers),
            control,
            failed: Arc::new(failed),
            arrivals,
            doctor,
        }
    }

    /// The gate and the counter of a consumer, if it is of a pool.
    pub(crate) fn steering(&self, pool: Option<PoolId>, place: Place) -> Steering {
        self.control.steering(pool, place)
    }

    /// The topology of the broker.
    pub(crate) fn provision(&self) -> Provision<'_> {
        let Self { broker, declarer, doctor, control, .. } = self;
        Provision { broker, declarer, doctor, control }
    }

    /// The figures of queues.
    fn figures(&self) -> Figures<'_> {
        let Self { broker, declarer, doctor, control, roster, agreement, .. } = self;
        Figures { broker, known: declarer.known(), doctor, control, roster, agreement }
    }

    /// Ends the control queue.
    pub(crate) async fn close(&self) {
        self.control.close().await;
    }
}

#[async_trait]
impl Administer for Administration {
    async fn counts(&self, queue: &str) -> Result<Counts> {
        check_name("queue", queue)?;
        self.figures().counts(queue).await
    }

    async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        check_name("queue", queue)?;
        self.figures().parts(queue).await
    }

    async fn in_levels(&self) -> Result<Figure<u64>> {
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

    async fn paused(&self, queue: &str) -> Result<Figure<Option<Pause>>> {
        check_name("queue", queue)?;
        self.control.paused(queue).await
    }

    async fn join(&self, pool: Arc<dyn Controlled>) -> Result<Membership> {
        self.broker.within("registering the pool for queries", self.control.join(pool)).await
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
impl Admit for Administration {
    async fn admit(&self, batch: Vec<Admission>) -> Vec<NotPushed> {
        self.arrivals.admit(batch).await
    }
}

#[async_trait]
impl Depart for Administration {
    async fn queues_to_declare(&self) -> Result<Vec<QueueSpec>> {
        let mut parts = self.declarer.known().all();
        parts.add(self.doctor.listed_parts().await.known().cloned().unwrap_or_default());
        parts.subscriptions.extend(self.doctor.subscriptions().await?);
        Ok(parts.specs())
    }

    async fn depart(&self, scope: Scope) -> Result<Box<dyn Departing>> {
        let (broker, known, publisher) =
            (&self.broker, self.declarer.known(), &self.arrivals.publisher);
        Ok(Box::new(match scope {
            Scope::Queue(queue) => {
                check_name("queue", &queue)?;
                let mut parts = known.part(&queue).unwrap_or_default();
                let listed = self.doctor.listed(&queue).await;
                parts.add(listed.known().cloned().flatten().unwrap_or_default());
                // A pool may have declared it.
                parts.solo.insert(queue.clone());
                Leaving::queue(broker, known, publisher, (&queue, &parts))
            }
            Scope::Shared => {
                let mut levels: Vec<_> = known.levels().into_iter().collect();
                let listed = self.doctor.listed_levels().await;
                levels.extend(listed.known().cloned().unwrap_or_default());
                Leaving::levels(broker, known, publisher, levels)
            }
        }))
    }
}

#[async_trait]
impl Diagnose for Administration {
    async fn about(&self) -> About {
        let version = self.broker.publishing().version();
        let mut about = About::new(format!("RabbitMQ {}", version.as_deref().unwrap_or("?")));
        about.hold = server_properties::hold(version.as_deref());
        about
    }

    fn missing(&self) -> Option<Error> {
        self.declarer.known().missing()
    }

    fn credentials(&self) -> Option<Error> {
        self.broker.target().identity.as_ref()?.trouble()
    }

    async fn examine(&self, queues: &[QueueSpec]) -> Result<Report> {
        let reports = self.control.reports().await;
        let report = self.doctor.examine(queues, &reports).await?;
        let unmet_needs = reports.iter().flat_map(PoolReport::unmet_needs);
        Ok(report.with(examine_clocks(&reports).into_iter().chain(unmet_needs).collect()))
    }

    async fn examine_policies(&self, queues: &[QueueSpec]) -> Result<Vec<Finding>> {
        self.doctor.examine_policies(queues).await
    }
}
