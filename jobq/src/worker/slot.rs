//! A slot of a queue: a task of the program's runtime or, while it runs plain `fn`s, a thread. It
//! makes one attempt after the other until no job waits.

use std::sync::Arc;

use futures_util::future::Abortable;
use tokio::runtime::Handle;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::attempt::Attempt;
use super::block_on::block_on;
use super::decision::Called;
use super::layer::Layers;
use super::observer;
use super::queue::Queue;
use super::registry::Registered;
use crate::background;
use crate::guard::guarded;
use crate::job::Outcome;

/// A job that a slot is to run, with its key in the book.
pub(super) struct Job {
    pub(super) key: usize,
    pub(super) call: Invocation,
}

/// The call of a job's function.
pub(super) struct Invocation {
    pub(super) attempt: Attempt,
    pub(super) registered: Arc<Registered>,
    pub(super) span: Span,
}

/// A slot of a queue. Dropping it frees the slot, and releases the job that it runs.
pub(super) struct Slot {
    queue: Arc<Queue>,
    number: usize,
}

impl Slot {
    pub(super) fn new(queue: Arc<Queue>, number: usize) -> Self {
        Self { queue, number }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Makes this attempt and those after it.
    pub(super) fn start(self, job: Job) {
        if job.call.registered.blocks {
            self.start_thread(job);
        } else {
            let runtime = self.queue.pool.runtime.clone();
            let abort = self.queue.new_abort(self.number);
            runtime.spawn(Abortable::new(self.run(job), abort));
        }
    }

    fn start_thread(self, job: Job) {
        let (queue, number, key) = (Arc::clone(&self.queue), self.number, job.key);
        if let Err(Some(unrun)) = background::spawn_blocking(move || self.run_blocking(job)) {
            queue.no_thread(number, key);
            drop(unrun);
        }
    }

    async fn run(self, mut job: Job) {
        self.queue.slot_began();
        loop {
            let Job { key, call } = job;
            let called = call.run(&self.queue.pool.plan.layers).await;
            match self.queue.ended(self.number, key, called) {
                Some(next) if next.call.registered.blocks => return self.start_thread(next),
                Some(next) => job = next,
                None => return,
            }
            // Functions that end at once would keep their runtime from everything else.
            consume_budget().await;
        }
    }

    fn run_blocking(self, mut job: Job) {
        let runtime = self.queue.pool.runtime.clone();
        loop {
            let Job { key, call } = job;
            let called = call.run_blocking(&runtime, &self.queue.pool.plan.layers);
            match self.queue.ended(self.number, key, called) {
                Some(next) if next.call.registered.blocks => job = next,
                Some(next) => return self.start(next),
                None => return,
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.slot_ended(self.number);
    }
}

impl Invocation {
    /// Decodes the payload and calls the function, with the layers around it.
    pub(super) async fn run(self, layers: &Arc<Layers>) -> Called {
        let Self { attempt, registered, span } = self;
        attempt.start();
        observer::relate_span(&attempt, &span);
        match span.in_scope(|| guarded(|| registered.start.get()(&attempt, layers))) {
            Ok(called) => Ok(called?.run().instrument(span).await),
            Err(panic) => Ok(Outcome::panicked(panic)),
        }
    }

    /// Runs the call on this thread. It cannot be aborted here, so a layer at an `.await` is dropped
    /// when the attempt is cancelled.
    pub(super) fn run_blocking(self, runtime: &Handle, layers: &Arc<Layers>) -> Called {
        let _entered = runtime.enter();
        let cancelled: Option<CancellationToken> =
            (!layers.is_empty()).then(|| self.attempt.cancelled().token().clone());
        let call = self.run(layers);
        match cancelled {
            None => block_on(call),
            // This outcome is ignored.
            Some(cancelled) => block_on(cancelled.run_until_cancelled(call))
                .unwrap_or_else(|| Ok(Outcome::failed("cancelled"))),
        }
    }
}
