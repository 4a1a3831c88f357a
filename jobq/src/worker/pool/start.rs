//! The start of a pool.

use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;

use super::WorkerPool;
use crate::background;
use crate::client::Client;
use crate::engine::{About, Consume, Membership, PoolId, QueueName, check_events};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Finding, Severity};
use crate::relay::Task;
use crate::telemetry;
use crate::worker::answers::{ControlledPool, PoolControl, PoolPart};
use crate::worker::queue::Queue;
use crate::worker::registry;
#[cfg(not(feature = "schedules"))]
use crate::worker::running::Keepers;
use crate::worker::running::{Relaying, RunningPool, Tasks};
#[cfg(feature = "schedules")]
use crate::worker::schedules::Planned;
use crate::worker::shared::Shared;

impl WorkerPool {
    /// Declares the queues of the pool and consumes them.
    pub(super) async fn start(self, runtime: Handle) -> Result<RunningPool> {
        let queues = self.check()?;
        let background = background::handle()?;
        let engine = self.client.engine();
        #[cfg(feature = "schedules")]
        let schedules = Planned::new(&self.registry, &**engine)?;
        let has_solo = engine.capabilities().solo;
        let mut specs = registry::specs(&queues);
        for spec in &mut specs {
            spec.solo = has_solo;
        }
        if specs.iter().any(|spec| !spec.patterns.is_empty()) {
            check_events(&**engine)?;
        }
        engine.declare(&specs).await?;
        if let Some(diagnose) = engine.diagnose() {
            check_findings(&diagnose.examine_policies(&specs).await?)?;
        }
        let about = match engine.diagnose() {
            Some(diagnose) => diagnose.about().await,
            None => About::new("an engine of the program's own"),
        };
        if let Some(hold) = about.hold {
            let limits = self.registry.jobs.iter().map(|job| (job.name, job.options.timeout));
            telemetry::may_be_taken_back(&registry::may_outlast(limits, hold.limit), &hold);
        }
        let client = self.client.clone();
        let plan = self.registry.into_plan(queues, self.client);
        let shared = Arc::new(Shared::new(plan, runtime, has_solo));
        let queues = &shared.plan.queues;
        let parts: Vec<_> =
            queues.keys().map(|name| PoolPart::new(Queue::new(&shared, name))).collect();
        let pool = ControlledPool {
            id: PoolId::new(),
            level: self.control,
            started_at: shared.clock().now(),
            shared: Arc::clone(&shared),
            parts: parts.clone(),
            relays: self.relays.iter().map(Task::board).collect(),
            clock_logged: Mutex::default(),
            #[cfg(feature = "schedules")]
            board: Arc::clone(&schedules.board),
        };
        let relays = pool.relays.clone();
        let membership = join(&client, pool).await?;
        let mut consumers = Vec::new();
        for ((name, queue), part) in queues.iter().zip(&parts) {
            let (name, pool) = (QueueName::new(name)?, shared.joined());
            let alone = Consume::solo(name).pool(pool).only_job(queue.only_job);
            let alone = if has_solo { Some(client.engine().consume(alone).await?) } else { None };
            let together = Consume::new(name, part.queue.prefetch()).pool(pool);
            let together = together.only_job(queue.only_job);
            consumers.push((client.engine().consume(together).await?, alone));
        }
        let settings = queues.iter().map(|(name, queue)| (*name, queue.concurrency));
        telemetry::pool_started(&about.name, client.namespace(), shared.joined(), settings);
        let timeout = self.shutdown_timeout;
        #[cfg(feature = "schedules")]
        let mut keepers = schedules.into_keepers(&shared, &parts);
        #[cfg(not(feature = "schedules"))]
        let mut keepers = Keepers::new();
        let mut relaying = Vec::new();
        for relay in self.relays {
            let (relay, stop) = (relay.run(shared.enough.clone()), shared.stop.clone());
            if parts.is_empty() {
                // A quiet pool goes on answering.
                let until_stop = async move {
                    relay.await?;
                    stop.cancelled().await;
                    Ok(())
                };
                relaying.push(Box::pin(until_stop) as Relaying);
            } else {
                // The queues tell of a client that was closed.
                keepers.push(Box::pin(async { _ = relay.await }));
            }
        }
        let tasks = Tasks { consumers, relaying, keepers, membership, relays };
        Ok(RunningPool::start(&shared, parts, tasks, timeout, background))
    }
}

/// Makes a pool one of those that can be asked and told of pauses. `None` if it cannot.
async fn join(client: &Client, pool: ControlledPool) -> Result<Option<Membership>> {
    let is_off = pool.level == PoolControl::Off;
    let Some(administer) = client.engine().administer().filter(|_| !is_off) else {
        return Ok(None);
    };
    let (id, shared) = (pool.id, Arc::clone(&pool.shared));
    match administer.join(Arc::new(pool)).await {
        Ok(membership) => {
            let _ = shared.pool.set(id);
            Ok(Some(membership))
        }
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) if error.is_refused() => {
            telemetry::control_forbidden(&error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns an error if queues lose or stall jobs, and logs the other findings.
fn check_findings(findings: &[Finding]) -> Result<()> {
    let (errors, others): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.severity() == Severity::Error);
    others.into_iter().for_each(telemetry::weakened);
    if errors.is_empty() {
        return Ok(());
    }
    let errors: Vec<_> = errors.into_iter().map(Finding::sentence).collect();
    let text = format!("the pool does not start: {}", errors.join(". "));
    Err(Error::new(ErrorKind::Conflict, text))
}
