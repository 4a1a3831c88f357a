//! Attempts outside of a pool, one at a time on the caller's task, for the test kit.

use std::future::pending;

use tokio::runtime::Handle;

use super::execution::{self, Decided};
use super::registry::{self, Registry};
use super::shared::{Shared, Threads};
use crate::client::Client;
use crate::engine::Delivery;
use crate::error::Result;
use crate::job::{Envelope, Job, Outcome, queue_of};
use crate::worker::{Attempt, JobFunction, Next, Run};

/// The concurrency of a queue, which attempts outside of a pool ignore.
const CONCURRENCY: u16 = 1;

/// The jobs, states and layers for attempts outside of a pool.
#[derive(Debug, Default)]
pub(crate) struct InlineBuilder(Registry);

impl InlineBuilder {
    pub(crate) fn register<J: Run>(&mut self) {
        self.0.jobs.push(registry::Registered::of_type::<J>());
    }

    pub(crate) fn handle<F: JobFunction<Arguments>, Arguments>(&mut self, function: F) {
        self.0.jobs.push(registry::Registered::of_function(function));
    }

    pub(crate) fn state<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.state(value);
    }

    pub(crate) fn around<F, Fut>(&mut self, layer: F)
    where
        F: Fn(Attempt, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        self.0.layers.push(layer);
    }

    /// Checks the settings and declares the queues.
    ///
    /// # Errors
    ///
    /// Settings with which a pool does not start.
    pub(crate) async fn start(self, client: Client) -> Result<Inline> {
        let queues = self.0.check(CONCURRENCY)?;
        client.engine().declare(&registry::specs(&queues)).await?;
        let runtime = Handle::current();
        let threads = Threads::Runtime(runtime.clone());
        let plan = self.0.into_plan(queues, client);
        Ok(Inline { shared: Shared::new(plan, runtime, threads, false) })
    }
}

/// Runs attempts outside of a pool.
#[derive(Debug)]
pub(crate) struct Inline {
    shared: Shared,
}

impl Inline {
    /// Whether there is a function for this job.
    pub(crate) fn can_run(&self, envelope: &Envelope) -> bool {
        let plan = &self.shared.plan;
        let queue = plan.queues.get(&*envelope.queue);
        queue.is_some_and(|queue| plan.jobs.contains_key(queue.job_of(envelope)))
    }

    /// The name of the job that a message is for; that of its queue if it names none.
    pub(crate) fn name_of<'e>(&self, envelope: &'e Envelope) -> &'e str {
        let queue = self.shared.plan.queues.get(&*envelope.queue);
        let name = match queue {
            Some(queue) => queue.job_of(envelope),
            None => envelope.name.as_deref().unwrap_or_default(),
        };
        if name.is_empty() { &envelope.queue } else { name }
    }

    /// Whether there is a function for jobs of this type.
    pub(crate) fn knows<J: Job>(&self) -> bool {
        self.shared.plan.jobs.contains_key(J::NAME)
            && self.shared.plan.queues.contains_key(queue_of::<J>())
    }

    /// Makes an attempt, up to its settlement.
    pub(crate) async fn attempt(&self, delivery: Delivery) -> Decided {
        let plan = self.shared.plan.queues.get_key_value(&*delivery.envelope().queue);
        let (queue, _) = plan.expect("the kit claims jobs of its queues only");
        execution::attempt(&self.shared, queue, delivery, pending()).await
    }
}
