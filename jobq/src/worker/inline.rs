//! Attempts outside of a pool, one at a time on the caller's task, for the test kit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "schedules")]
use std::time::SystemTime;

use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::cancellation::Cancellation;
use super::decision::{self, Called, Decision, Resolved};
use super::observer::Observer;
use super::registry::{self, Registry};
#[cfg(feature = "schedules")]
use super::schedules::Stepped;
use super::shared::Shared;
use super::slot::Invocation;
use crate::client::Client;
use crate::engine::{Delivery, Settlement};
use crate::error::Result;
use crate::job::{Envelope, Job, Outcome, queue_of};
#[cfg(feature = "schedules")]
use crate::schedule::Schedule;
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

    #[cfg(feature = "schedules")]
    pub(crate) fn cron<J: Job>(&mut self, times: Result<Schedule>) {
        self.0.periodics.add(J::NAME, times);
    }

    /// Checks the settings and declares the queues.
    ///
    /// # Errors
    ///
    /// Settings with which a pool does not start.
    pub(crate) async fn start(self, client: Client) -> Result<Inline> {
        let queues = self.0.check(CONCURRENCY, true)?;
        #[cfg(feature = "schedules")]
        let schedules = Stepped::new(self.0.schedules()?);
        client.engine().declare(&registry::specs(&queues)).await?;
        let plan = self.0.into_plan(queues, client.clone());
        let shared = Shared::new(plan, Handle::current(), false);
        let observers = shared.plan.queues.keys().map(|queue| {
            (*queue, Observer::new(client.clone(), queue, shared.plan.jobs_of(queue)))
        });
        Ok(Inline {
            observers: observers.collect(),
            #[cfg(feature = "schedules")]
            schedules,
            shared,
        })
    }
}

/// Runs attempts outside of a pool.
#[derive(Debug)]
pub(crate) struct Inline {
    shared: Shared,
    observers: BTreeMap<&'static str, Observer>,
    #[cfg(feature = "schedules")]
    schedules: Stepped,
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

    /// Enqueues the jobs of schedules that are due, and returns when the next one is.
    #[cfg(feature = "schedules")]
    pub(crate) async fn tick(&self) -> Result<Option<SystemTime>> {
        let mut first = None;
        for queue in self.shared.plan.queues.keys() {
            let next = self.schedules.tick(&self.shared.resources.client, queue).await?;
            first = first.into_iter().chain(next).min();
        }
        Ok(first)
    }

    /// Whether there is a function for jobs of this type.
    pub(crate) fn knows<J: Job>(&self) -> bool {
        self.shared.plan.jobs.contains_key(J::NAME)
            && self.shared.plan.queues.contains_key(queue_of::<J>())
    }

    /// Makes an attempt, up to its settlement.
    pub(crate) async fn attempt(&self, delivery: Delivery) -> (Delivery, Decision) {
        let shared = &self.shared;
        let observer = self.observers.get_key_value(&*delivery.envelope().queue);
        let (queue, observer) = observer.expect("the kit claims jobs of its queues only");
        let Resolved { who, job } = decision::resolve(shared, queue, &delivery);
        let job = match job {
            Ok(job) => job,
            Err(decision) => {
                observer.decided(&who, &decision, None);
                return (delivery, decision);
            }
        };
        let attempt = decision::attempt_of(shared, &job, &delivery);
        let started = observer.started(&who, &delivery);
        let (registered, span) = (Arc::clone(&job), started.span().clone());
        let call = Invocation { attempt: attempt.clone(), registered, span };
        let decision = match self.call(call, decision::limit(&job, &delivery)).await {
            Some(Ok(called)) => {
                if let Ok(outcome) = &called {
                    Observer::ended(&who, outcome, attempt.function_outcome());
                }
                decision::ended(shared, &job, &delivery, called)
            }
            // The runtime has ended.
            Some(Err(_)) => Decision::plain(Settlement::Release),
            None => {
                attempt.cancelled().cancel(Cancellation::Timeout);
                decision::timed_out(&job, &delivery, job.options.timeout)
            }
        };
        observer.decided(&who, &decision, Some(&(started, attempt.took())));
        (delivery, decision)
    }

    /// Calls a function in a task or a thread of its own. `None` if it takes longer than this.
    async fn call(
        &self,
        call: Invocation,
        limit: Option<Duration>,
    ) -> Option<Result<Called, JoinError>> {
        let (runtime, layers) = (self.shared.runtime.clone(), Arc::clone(&self.shared.plan.layers));
        // A thread of the runtime, where it stops its paused clock.
        let task = if call.registered.blocks {
            runtime.clone().spawn_blocking(move || call.run_blocking(&runtime, &layers))
        } else {
            runtime.spawn(async move { call.run(&layers).await })
        };
        let mut task = AbortOnDropHandle::new(task);
        match limit {
            None => Some(task.await),
            Some(limit) => timeout(limit, &mut task).await.ok(),
        }
    }
}
