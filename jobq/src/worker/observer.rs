//! What the attempts of a queue tell those who watch: the log, metrics, traces, reports of the pool,
//! and operations that wait for outcomes.
//!
//! The path of a job tells an [`Observer`] and knows nobody behind it.

mod canary;
mod minute;
mod tally;
mod unmet;

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use slab::Slab;
use tracing::Span;

use self::canary::Outcomes;
use self::minute::MinuteWindow;
use self::tally::Tally;
use self::unmet::UnmetNeeds;
use super::attempt::Attempt;
use super::decision::Decision;
use super::health::{self, Status};
use crate::client::Client;
use crate::engine::{Delivery, LastMinute, RunningJob, Settlement, Watched, WatchedOutcome};
use crate::error::Result;
use crate::guard::lock;
use crate::job::Outcome;
use crate::metrics::{PoolLevel, QueueMetrics};
use crate::telemetry::Who;
use crate::traces;

/// An attempt whose function holds a lost slot, with the timeout of its job.
type Lost = (Attempt, Option<Duration>);

/// Those who watch the attempts of a queue.
pub(crate) struct Observer {
    client: Client,
    metrics: QueueMetrics,
    minute: Mutex<MinuteWindow>,
    tally: Tally,
    outcomes: Outcomes,
    unmet_needs: Mutex<UnmetNeeds>,
    /// The attempts whose functions hold lost slots.
    lost: Mutex<Slab<Lost>>,
    /// The slots, while the queue has some.
    slots: Mutex<Option<PoolLevel>>,
}

/// How long an attempt waited after it was due, and when it started.
type Waited = (Duration, SystemTime);

/// An attempt that runs, until it is decided or this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    span: Span,
    waited: Option<Waited>,
    _running: PoolLevel,
}

impl Started {
    /// How long the attempt waited, if its engine knows that.
    pub(super) fn waited(&self) -> Option<Waited> {
        self.waited
    }

    /// The span of the attempt, in which its function runs.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }
}

/// Relates the span to the context in the job's headers: its function is about to run in it.
pub(super) fn relate_span(attempt: &Attempt, span: &Span) {
    if let Some(traces) = attempt.client().traces() {
        traces.extract(span, &attempt.envelope().headers);
    }
}

/// A settlement on its way to the engine.
pub(super) struct Settling(Option<WatchedOutcome>);

/// An attempt whose function holds a lost slot, until this is dropped.
pub(super) struct SlotLost<'o> {
    observer: &'o Observer,
    key: usize,
    _counted: PoolLevel,
}

impl Observer {
    /// Those who watch a queue with these jobs.
    pub(super) fn new(
        client: Client,
        queue: &'static str,
        jobs: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self {
            client,
            metrics: QueueMetrics::new(queue, jobs),
            minute: Mutex::new(MinuteWindow::new(SystemTime::UNIX_EPOCH)),
            tally: Tally::default(),
            outcomes: Outcomes::default(),
            unmet_needs: Mutex::default(),
            lost: Mutex::default(),
            slots: Mutex::default(),
        }
    }

    fn now(&self) -> SystemTime {
        self.client.clock().now()
    }

    /// Attempts may run, so many at once, until there are [no slots](Self::has_no_slots).
    pub(super) fn has_slots(&self, count: impl FnOnce() -> u16) {
        let mut slots = lock(&self.slots);
        *slots = Some(self.metrics.has_slots(count()));
    }

    /// Another number of attempts may run at once, if any may.
    pub(super) fn slots_changed(&self, count: impl FnOnce() -> u16) {
        let mut slots = lock(&self.slots);
        if slots.is_some() {
            *slots = Some(self.metrics.has_slots(count()));
        }
    }

    /// No attempt may run any more.
    pub(super) fn has_no_slots(&self) {
        *lock(&self.slots) = None;
    }

    /// Measures whether the queue is consumed, from the states of its tasks.
    pub(super) fn measure(
        &self,
        together: &Status,
        alone: &Status,
    ) -> impl Future<Output = ()> + Send + use<> {
        let switches = (self.metrics.consuming(), self.metrics.paused());
        health::measure(together.clone(), alone.clone(), switches)
    }

    /// An attempt starts.
    pub(super) fn started(&self, who: &Who, delivery: &Delivery) -> Started {
        let span = match self.client.traces() {
            None => who.span(),
            // A span that a propagation can relate to that of the sender.
            Some(traces) => {
                let span = traces.process(who);
                if let Some(route) = delivery.route() {
                    traces::record_key(&span, route);
                }
                span
            }
        };
        let waited = delivery.due().map(|due| {
            let now = self.now();
            // Clocks of two machines differ.
            (now.duration_since(due).unwrap_or_default(), now)
        });
        Started { span, waited, _running: self.metrics.starts(waited.map(|(waited, _)| waited)) }
    }

    /// The system has no thread for an attempt that started.
    pub(super) fn has_no_thread(who: &Who, wait: Duration) {
        who.no_thread(wait);
    }

    /// A function has ended with its own outcome, and its layers with this one.
    pub(super) fn ended(who: &Who, outcome: &Outcome, function: Option<&Outcome>) {
        who.layered(outcome, function);
    }

    /// The worker has decided about a job, whose function ran so long if it was called.
    pub(super) fn decided(
        &self,
        who: &Who,
        decision: &Decision,
        called: Option<&(Started, Duration)>,
    ) {
        let Decision { settlement, failure, unmet_need } = decision;
        let took = called.map(|(_, took)| *took);
        let waited = called.and_then(|(started, _)| started.waited);
        if let Some((Started { span, .. }, _)) = called
            && self.client.traces().is_some()
        {
            traces::ended(span, settlement, failure);
        }
        who.decided(settlement, failure, took.unwrap_or_default());
        if let Some(word) = unmet_need
            && lock(&self.unmet_needs).add(word, self.now())
        {
            who.needs(word);
        }
        self.metrics.decided(&who.job, settlement, took);
        // Where the clock was read for the start, it is not read for the end.
        let at_end = waited.and_then(|(_, since)| since.checked_add(took?));
        let now = at_end.unwrap_or_else(|| self.now());
        let mut minute = lock(&self.minute);
        minute.decided(settlement, took, now);
        if let Some((waited, since)) = waited {
            minute.waited(waited, since);
        }
    }

    /// A settlement is passed to the engine.
    pub(super) fn settling(delivery: &Delivery, settlement: &Settlement) -> Settling {
        Settling(canary::outcome(delivery.envelope(), settlement))
    }

    /// The engine has recorded a settlement, or not.
    pub(super) fn settled(
        &self,
        who: &Who,
        settlement: &Settlement,
        settling: Settling,
        recorded: &Result<()>,
    ) {
        self.tally.count(settlement, recorded.is_ok());
        match recorded {
            Ok(()) => self.outcomes.extend(settling.0),
            Err(error) => {
                who.not_recorded(settlement, error);
                self.metrics.unrecorded();
            }
        }
    }

    /// A function holds its slot although its attempt is over.
    pub(super) fn slot_lost(&self, attempt: Attempt, timeout: Option<Duration>) -> SlotLost<'_> {
        let key = lock(&self.lost).insert((attempt, timeout));
        SlotLost { observer: self, key, _counted: self.metrics.loses_slot() }
    }

    /// The outcomes and waits of the last minute, those of attempts that run included.
    pub(super) fn last_minute(&self, running: Vec<Waited>) -> LastMinute {
        let now = self.now();
        let mut minute = lock(&self.minute).read(now);
        for (waited, since) in running {
            // A start in the future is one of a clock that was set back.
            if now.duration_since(since).unwrap_or_default() < Duration::from_secs(60) {
                minute.waited = minute.waited.max(Some(waited));
            }
        }
        minute
    }

    /// The words of `jobq-needs` that this version lacks, of jobs of the last minute.
    pub(super) fn last_unmet_needs(&self) -> Vec<String> {
        lock(&self.unmet_needs).read(self.now())
    }

    /// The outcomes of these jobs that are known.
    pub(super) fn outcomes(&self, jobs: &[Watched]) -> Vec<WatchedOutcome> {
        self.outcomes.of(jobs)
    }

    /// The numbers of completed, retried, failed and unrecorded attempts.
    pub(super) fn counts(&self) -> [u64; 4] {
        self.tally.read()
    }

    /// The attempts whose functions hold lost slots.
    pub(super) fn lost_slots(&self) -> Vec<RunningJob> {
        lock(&self.lost).iter().map(|(_, (attempt, timeout))| attempt.report(*timeout)).collect()
    }
}

impl Drop for SlotLost<'_> {
    fn drop(&mut self) {
        let attempt = lock(&self.observer.lost).try_remove(self.key);
        // Outside of the lock, since what layers left in the attempt may be dropped with it.
        drop(attempt);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
