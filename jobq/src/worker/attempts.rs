//! The attempts of one queue that are in hand, each from its delivery to its settlement.

use std::cell::OnceCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use slab::Slab;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tokio_util::time::{DelayQueue, delay_queue};

use super::attempt::{Shared, Verdict, is_stale, likeness, look_up, settle};
use super::lives::Lives;
use super::registry::Registered;
use super::run::Scope;
use super::task::{self, Ran, Reporter, Reports, Run, panicked};
use crate::engine::{Delivery, Settlement};
use crate::job::{JobId, Outcome};
use crate::period;
use crate::retry;
use crate::telemetry::Who;

/// How long after its timeout a function may take to end. An `async fn` ends at its next
/// `.await`.
const ENDING: Duration = Duration::from_secs(1);

type Settling = Pin<Box<dyn Future<Output = (Run, Settlement, bool)> + Send>>;

/// What is left of an attempt when it is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) id: JobId,
    /// How it was to be settled.
    pub(crate) settlement: Settlement,
    /// Set if it was not: the delivery was no longer this pool's. It is the job's likeness.
    pub(crate) stale: Option<u64>,
    /// How long the function ran, if it did.
    pub(crate) took: Option<Duration>,
    /// The same job, delivered again meanwhile.
    pub(crate) held: Option<Delivery>,
}

pub(crate) struct Attempts {
    shared: Arc<Shared>,
    queue: &'static str,
    in_hand: Slab<Attempt>,
    lives: Lives,
    /// What cannot be settled in a moment.
    settling: FuturesUnordered<Settling>,
    timeouts: DelayQueue<Run>,
    reporting: Reports,
    reports: mpsc::UnboundedReceiver<(Run, Ran)>,
    /// How many functions run, those that outlived their timeout included.
    busy: usize,
    /// How many attempts there were.
    count: u64,
    halted: bool,
}

struct Attempt {
    number: u64,
    id: JobId,
    /// The life of the connection or the lease that it was delivered in.
    life: u64,
    stage: Stage,
    took: Option<Duration>,
    held: Option<Delivery>,
}

enum Stage {
    Runs(Running),
    Settles { likeness: u64 },
}

struct Running {
    who: Who,
    job: Arc<Registered>,
    delivery: Delivery,
    started: Instant,
    task: AbortOnDropHandle<()>,
    /// Tells the function that it is cancelled, if it can ask.
    cancelled: Option<CancellationToken>,
    timeout: Option<(Duration, delay_queue::Key)>,
}

impl Attempts {
    pub(crate) fn new(shared: Arc<Shared>, queue: &'static str) -> Self {
        let (reporting, reports) = mpsc::unbounded_channel();
        Self {
            shared,
            queue,
            in_hand: Slab::new(),
            lives: Lives::default(),
            settling: FuturesUnordered::new(),
            timeouts: DelayQueue::new(),
            reporting: Arc::new(reporting),
            reports,
            busy: 0,
            count: 0,
            halted: false,
        }
    }

    /// Whether none is in hand. Functions that outlived their timeout may still run.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_hand.is_empty()
    }

    /// How many functions run, those that outlived their timeout included.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    /// Keeps a delivery until the end of the attempt whose job it is, if there is one: the
    /// same job, delivered again in another life, is not run beside itself. An id is a
    /// label, so several jobs may have it.
    pub(crate) fn hold(&mut self, delivery: Delivery) -> Option<Delivery> {
        let (id, life) = (delivery.envelope().id, delivery.life());
        if !self.lives.has_other(life) {
            return Some(delivery);
        }
        let itself = |attempt: &&mut Attempt| {
            attempt.id == id && attempt.life != life && attempt.is_of(&delivery)
        };
        match self.in_hand.iter_mut().map(|(_, attempt)| attempt).find(itself) {
            Some(attempt) => {
                // One that was held before is stale by now: there is but one delivery of a job.
                attempt.held = Some(delivery);
                None
            }
            None => Some(delivery),
        }
    }

    /// Takes out what is held.
    pub(crate) fn take_held(&mut self) -> Vec<Delivery> {
        self.in_hand.iter_mut().filter_map(|(_, attempt)| attempt.held.take()).collect()
    }

    /// Runs a delivery, or settles it if it is not to be run.
    pub(crate) fn start(&mut self, delivery: Delivery) {
        let run = self.next_run();
        let (who, found) = look_up(&self.shared, self.queue, &delivery);
        let verdict = match found {
            Ok(job) => match self.run(run, &who, &job, &delivery) {
                Ok((task, cancelled)) => {
                    self.busy += 1;
                    let limit = job.options.timeout.or(delivery.solo.map(|_| retry::ALONE));
                    let timeout = limit.map(|limit| (limit, self.timeouts.insert(run, limit)));
                    let (life, started) = (delivery.life(), Instant::now());
                    let id = delivery.envelope().id;
                    let running = Running { who, job, delivery, started, task, cancelled, timeout };
                    let (number, stage) = (run.number, Stage::Runs(running));
                    self.take_in(Attempt { number, id, life, stage, took: None, held: None });
                    return;
                }
                Err(verdict) => verdict,
            },
            Err(verdict) => verdict,
        };
        who.decided(&verdict.settlement, &verdict.error, Duration::ZERO);
        self.begin_settling(who, delivery, verdict.settlement, None, None);
    }

    /// Settles a delivery by the outcome of a run that could not be settled any more; running
    /// it would be a duplicate.
    pub(crate) fn settle_again(&mut self, delivery: Delivery, settlement: Settlement) {
        let name = delivery.envelope().name.clone().unwrap_or_default();
        let who = Who::of(&delivery, name, self.queue);
        self.begin_settling(who, delivery, settlement, None, None);
    }

    /// Waits until something becomes of an attempt. Gives one that is over; none where only
    /// its function has ended, and its slot is free.
    pub(crate) async fn next(&mut self) -> Option<Finished> {
        tokio::select! {
            biased;
            // There is a sender for as long as this lives.
            Some((run, ran)) = self.reports.recv() => return self.reported(run, ran),
            Some((run, settlement, stale)) = self.settling.next() => {
                return self.settled(run, settlement, stale);
            }
            Some(expired) = self.timeouts.next() => self.timed_out(expired.into_inner()),
            () = self.shared.halt.cancelled(), if !self.halted => self.halt(),
        }
        None
    }

    /// The next attempt that is over, if there is one by now.
    pub(crate) fn ready(&mut self) -> Option<Finished> {
        while let Ok((run, ran)) = self.reports.try_recv() {
            if let Some(finished) = self.reported(run, ran) {
                return Some(finished);
            }
        }
        None
    }

    /// The run of the attempt that is taken in next.
    fn next_run(&mut self) -> Run {
        self.count += 1;
        Run { place: self.in_hand.vacant_key(), number: self.count }
    }

    fn take_in(&mut self, attempt: Attempt) {
        self.lives.begin(attempt.life);
        self.in_hand.insert(attempt);
    }

    fn take_out(&mut self, run: Run) -> Option<Attempt> {
        self.in_hand.get(run.place).filter(|attempt| attempt.number == run.number)?;
        let attempt = self.in_hand.remove(run.place);
        self.lives.end(attempt.life);
        Some(attempt)
    }

    /// Starts the job's function.
    fn run(
        &self,
        run: Run,
        who: &Who,
        job: &Registered,
        delivery: &Delivery,
    ) -> Result<(AbortOnDropHandle<()>, Option<CancellationToken>), Verdict> {
        let envelope = delivery.envelope();
        let scope = Scope {
            envelope,
            attempt: delivery.attempt,
            max_attempts: job.options.max_attempts(),
            client: &self.shared.client,
            states: &self.shared.plan.states,
            cancelled: OnceCell::new(),
        };
        // Reading the payload and making the call run the user's code, too.
        match catch_unwind(AssertUnwindSafe(|| (job.start)(&envelope.payload, &scope))) {
            Ok(Ok(call)) => {
                let reporter = Reporter::new(run, Arc::clone(&self.reporting));
                let task = task::spawn(&self.shared.runtime, call, who.span(), reporter);
                Ok((task, scope.cancelled.into_inner()))
            }
            Ok(Err(problem)) => Err(Verdict::unreadable(job, delivery.attempt, &problem)),
            Err(panic) => Err(Verdict::after(job, delivery.attempt, panicked(&*panic))),
        }
    }

    /// Goes on after the end of a function.
    fn reported(&mut self, run: Run, ran: Ran) -> Option<Finished> {
        self.busy -= 1;
        let (running, took, held) = self.take_running(run)?;
        let Running { who, job, mut delivery, .. } = running;
        let Verdict { settlement, error } = match ran {
            Ran::Ended(outcome) => Verdict::after(&job, delivery.attempt, outcome),
            Ran::Cancelled => Verdict::plain(Settlement::Release),
        };
        who.decided(&settlement, &error, took);
        let took = Some(took);
        if settlement != Settlement::Complete || delivery.solo.is_some() {
            self.begin_settling(who, delivery, settlement, took, held);
            return None;
        }
        let stale = is_stale(&who, delivery.complete()).then(|| likeness(&delivery));
        Some(Finished { id: who.id, settlement, stale, took, held })
    }

    /// Goes on without a function that has not ended in time.
    fn timed_out(&mut self, run: Run) {
        let Some((running, took, held)) = self.take_running(run) else {
            return;
        };
        let Running { who, job, delivery, task, cancelled, timeout, .. } = running;
        cancel(cancelled);
        task.abort();
        // One that runs alone has no slot of its queue.
        if delivery.solo.is_none() {
            tokio::spawn(await_end(Arc::clone(&self.shared), who.clone(), task.detach()));
        }
        let limit = timeout.map(|(limit, _)| period::format(limit)).unwrap_or_default();
        let outcome = Outcome::failed(format!("it took longer than its timeout of {limit}"));
        let Verdict { settlement, error } = Verdict::after(&job, delivery.attempt, outcome);
        who.decided(&settlement, &error, took);
        self.begin_settling(who, delivery, settlement, Some(took), held);
    }

    /// Cancels all functions and hands their jobs back.
    fn halt(&mut self) {
        self.halted = true;
        let run = |(place, attempt): (usize, &Attempt)| Run { place, number: attempt.number };
        let runs: Vec<_> = self.in_hand.iter().map(run).collect();
        for run in runs {
            let Some((running, took, held)) = self.take_running(run) else {
                continue;
            };
            let Running { who, delivery, cancelled, .. } = running;
            cancel(cancelled);
            who.decided(&Settlement::Release, "", took);
            self.begin_settling(who, delivery, Settlement::Release, Some(took), held);
        }
    }

    /// Takes an attempt out of hand whose function runs, and the time that it took.
    fn take_running(&mut self, run: Run) -> Option<(Running, Duration, Option<Delivery>)> {
        let runs = |attempt: &&Attempt| {
            attempt.number == run.number && matches!(attempt.stage, Stage::Runs(_))
        };
        self.in_hand.get(run.place).filter(runs)?;
        let attempt = self.in_hand.remove(run.place);
        self.lives.end(attempt.life);
        let Stage::Runs(running) = attempt.stage else {
            return None;
        };
        if let Some((_, key)) = &running.timeout {
            self.timeouts.try_remove(key);
        }
        let took = running.started.elapsed();
        Some((running, took, attempt.held))
    }

    fn begin_settling(
        &mut self,
        who: Who,
        delivery: Delivery,
        settlement: Settlement,
        took: Option<Duration>,
        held: Option<Delivery>,
    ) {
        let run = self.next_run();
        let (id, life) = (delivery.envelope().id, delivery.life());
        let stage = Stage::Settles { likeness: likeness(&delivery) };
        self.take_in(Attempt { number: run.number, id, life, stage, took, held });
        self.settling.push(Box::pin(async move {
            let was_stale = settle(&who, delivery, settlement.clone()).await;
            (run, settlement, was_stale)
        }));
    }

    fn settled(&mut self, run: Run, settlement: Settlement, stale: bool) -> Option<Finished> {
        let Attempt { id, stage, took, held, .. } = self.take_out(run)?;
        let Stage::Settles { likeness } = stage else {
            return None;
        };
        Some(Finished { id, settlement, stale: stale.then_some(likeness), took, held })
    }
}

impl Attempt {
    fn is_of(&self, delivery: &Delivery) -> bool {
        match &self.stage {
            Stage::Runs(running) => likeness(&running.delivery) == likeness(delivery),
            Stage::Settles { likeness: own } => *own == likeness(delivery),
        }
    }
}

fn cancel(cancelled: Option<CancellationToken>) {
    cancelled.inspect(CancellationToken::cancel);
}

/// Tells of a function that does not end at its timeout, and of its end.
async fn await_end(shared: Arc<Shared>, who: Who, mut task: JoinHandle<()>) {
    if tokio::time::timeout(ENDING, &mut task).await.is_ok() {
        return;
    }
    let slots = shared.plan.queues[who.queue].concurrency;
    who.lost_slot(shared.lost.lose(who.queue), slots);
    // It failed already, so its outcome is nobody's.
    let _ = task.await;
    who.regained_slot(shared.lost.regain(who.queue), slots);
}
