//! The call of a job function: in a task of its own in the program's runtime or, for a plain `fn`,
//! on a blocking thread.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::guard::guarded;
use crate::job::Outcome;
use crate::telemetry::Who;
use crate::worker::attempt::Attempt;
use crate::worker::cancellation::Cancellation;
use crate::worker::layer::Layers;
use crate::worker::registry::{QueuePlan, Registered};
use crate::worker::shared::Shared;

/// How long a function may take to end after its timeout.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The result of a call: the outcome of the function, or the decode error of its payload.
pub(super) type Called = serde_json::Result<Outcome>;

/// A call of a function, in a task of its own. Dropping it cancels the call.
pub(super) struct Call {
    attempt: Attempt,
    task: Option<JoinHandle<Called>>,
}

impl Call {
    /// `None` if the system has no thread for a plain `fn`.
    pub(super) fn start(
        pool: &Shared,
        job: &Arc<Registered>,
        attempt: &Attempt,
        span: Span,
    ) -> Option<Self> {
        let (runtime, layers) = (pool.runtime.clone(), Arc::clone(&pool.plan.layers));
        let called = call(Arc::clone(job), layers, attempt.clone(), span);
        let task = if job.blocks {
            let cancelled =
                (!pool.plan.layers.is_empty()).then(|| attempt.cancelled().token().clone());
            pool.threads.spawn(move || call_blocking(&runtime, called, cancelled))?
        } else {
            runtime.spawn(called)
        };
        Some(Self { attempt: attempt.clone(), task: Some(task) })
    }

    /// Waits for the result. The error means that the task was dropped with the program's runtime.
    pub(super) async fn ended(&mut self) -> Result<Called, JoinError> {
        let Some(task) = &mut self.task else { return std::future::pending().await };
        let called = task.await;
        self.task = None;
        called
    }

    /// Cancels the function, and drops it if it is at an `.await`.
    pub(super) fn cancel(&mut self, why: Cancellation) -> Option<JoinHandle<Called>> {
        let task = self.task.take()?;
        self.attempt.cancelled().cancel(why);
        task.abort();
        Some(task)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.cancel(Cancellation::Shutdown);
    }
}

/// Decodes the payload and calls the function, with the layers around it.
async fn call(job: Arc<Registered>, layers: Arc<Layers>, attempt: Attempt, span: Span) -> Called {
    attempt.start();
    if let Some(traces) = attempt.client().traces() {
        traces.extract(&span, &attempt.envelope().headers);
    }
    match span.in_scope(|| guarded(|| job.start.get()(&attempt, &layers))) {
        Ok(called) => Ok(called?.run().instrument(span).await),
        Err(panic) => Ok(Outcome::panicked(panic)),
    }
}

/// Runs the call on a blocking thread. It cannot be aborted there, so a layer at an `.await` is
/// dropped when the attempt is `cancelled`.
fn call_blocking(
    runtime: &Handle,
    call: impl Future<Output = Called>,
    cancelled: Option<CancellationToken>,
) -> Called {
    let _entered = runtime.enter();
    match cancelled {
        None => pollster::block_on(call),
        // This outcome is ignored.
        Some(cancelled) => pollster::block_on(cancelled.run_until_cancelled(call))
            .unwrap_or_else(|| Ok(Outcome::failed("cancelled"))),
    }
}

/// A function that goes on after its attempt. An `async fn` ends at its next `.await` point.
pub(in crate::worker) struct Lingering {
    pub(super) who: Who,
    pub(super) attempt: Attempt,
    pub(super) job: Arc<Registered>,
    pub(super) task: JoinHandle<Called>,
}

impl Lingering {
    /// Waits for the end of the function. After a second its slot counts as lost until then.
    pub(in crate::worker) async fn ended(mut self, pool: &Shared) {
        if tokio::time::timeout(END_LIMIT, &mut self.task).await.is_ok() {
            return;
        }
        let QueuePlan { lost_slots, concurrency, live, .. } = &pool.plan.queues[&*self.who.queue];
        let _counted = pool.metrics.queue(&self.who.queue).loses_slot();
        let reported = live.loses_slot(&self.attempt, &self.job);
        self.who.lost_slot(changed(lost_slots, |lost| *lost += 1), *concurrency);
        // Its outcome is ignored.
        let _ = self.task.await;
        drop(reported);
        self.who.regained_slot(changed(lost_slots, |lost| *lost -= 1), *concurrency);
    }
}

/// Changes a count, and returns the new one.
fn changed(count: &watch::Sender<usize>, change: impl FnOnce(&mut usize)) -> usize {
    let mut new = 0;
    count.send_modify(|count| {
        change(count);
        new = *count;
    });
    new
}
