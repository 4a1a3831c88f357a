//! The metrics of a client.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ::metrics::Counter;

use super::lazy::LazyHistogram;
use super::{ENQUEUE_DURATION, ENQUEUED, PUBLISH_DURATION, PUBLISHED, RESULTS};
use crate::error::Error;
use crate::guard::lock;

/// The handles of a client.
#[derive(Debug)]
pub(crate) struct ClientMetrics {
    /// By the type of the payload.
    jobs: Mutex<BTreeMap<TypeId, Arc<Calls>>>,
    events: Arc<Calls>,
}

/// The handles for the calls with one job type, or with events.
#[derive(Debug)]
struct Calls {
    results: [Counter; RESULTS.len()],
    duration: LazyHistogram,
}

impl ClientMetrics {
    pub(crate) fn new() -> Self {
        super::describe();
        let results = RESULTS.map(|result| PUBLISHED.counter([result]));
        let events = Calls { results, duration: PUBLISH_DURATION.histogram([]) };
        Self { jobs: Mutex::default(), events: Arc::new(events) }
    }

    fn calls(&self, job: TypeId, queue: &'static str, name: &'static str) -> Arc<Calls> {
        let mut jobs = lock(&self.jobs);
        let calls = jobs.entry(job).or_insert_with(|| {
            let results = RESULTS.map(|result| ENQUEUED.counter([queue, name, result]));
            Arc::new(Calls { results, duration: ENQUEUE_DURATION.histogram([queue]) })
        });
        Arc::clone(calls)
    }

    /// A call of `enqueue` begins.
    pub(crate) fn enqueue(&self, job: TypeId, queue: &'static str, name: &'static str) -> Call {
        Call { calls: self.calls(job, queue, name), began: Some(Instant::now()) }
    }

    /// A call of `enqueue_all` begins.
    pub(crate) fn enqueue_all(
        &self,
        job: TypeId,
        queue: &'static str,
        name: &'static str,
    ) -> Batch {
        Batch { calls: self.calls(job, queue, name), jobs: 0 }
    }

    /// A call of `publish` begins.
    pub(crate) fn publish(&self) -> Call {
        Call { calls: Arc::clone(&self.events), began: Some(Instant::now()) }
    }
}

impl Calls {
    /// The counter of the calls that end with this error, or without one.
    fn result(&self, error: Option<&Error>) -> &Counter {
        let [accepted, refused, unknown] = &self.results;
        match error {
            None => accepted,
            Some(error) if error.maybe_enqueued() => unknown,
            Some(_) => refused,
        }
    }

    /// The counter of the calls without an answer.
    fn unknown(&self) -> &Counter {
        let [.., unknown] = &self.results;
        unknown
    }
}

/// A call with one job or event. Dropped before its end, it counts as unknown: the engine goes on.
#[derive(Debug)]
pub(crate) struct Call {
    calls: Arc<Calls>,
    began: Option<Instant>,
}

impl Call {
    /// The call has ended, with this error or without one.
    pub(crate) fn ended(&mut self, error: Option<&Error>) {
        if let Some(began) = self.began.take() {
            self.calls.duration.record(began.elapsed());
            self.calls.result(error).increment(1);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.began.is_some() {
            self.calls.unknown().increment(1);
        }
    }
}

/// A call with many jobs. Dropped before its end, those that it has taken count as unknown.
#[derive(Debug)]
pub(crate) struct Batch {
    calls: Arc<Calls>,
    /// The jobs that are not counted yet.
    jobs: u64,
}

impl Batch {
    /// The call takes one job more.
    pub(crate) fn takes_one(&mut self) {
        self.jobs += 1;
    }

    /// The call has ended, with the numbers of accepted, refused and possibly accepted jobs.
    pub(crate) fn ended(mut self, counts: [usize; RESULTS.len()]) {
        for (result, count) in self.calls.results.iter().zip(counts) {
            result.increment(count as u64);
        }
        self.jobs = 0;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.calls.unknown().increment(self.jobs);
    }
}
