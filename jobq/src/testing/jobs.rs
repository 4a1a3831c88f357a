use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;

use super::during::During;
use super::expect::{Record, Recorded};
use super::memory::{Memory, Unclaimed};
use super::paused;
use super::ran::{Attempted, End, Ran};
use crate::client::Client;
use crate::clock::Clock;
use crate::engine::{Delivery, Settlement};
use crate::job::{FailedJob, Job, JobId, codec, queue_of};
use crate::period::{self, IntoPeriod};
use crate::worker::Inline;

/// The most attempts of one call.
const MOST_ATTEMPTS: usize = 10_000;

/// The jobs of a test: a client whose jobs stay in memory, functions that run when the test says
/// so, and a clock that the test moves.
///
/// Nothing is shared between two `Jobs`, so tests may run in parallel. Nothing runs in the
/// background: a job runs inside [`drain`](Self::drain), [`advance`](Self::advance),
/// [`run`](Self::run), [`deliver_twice`](Self::deliver_twice) and
/// [`crash_before_ack`](Self::crash_before_ack) alone. A job that panics fails the test; see
/// [`JobsBuilder::allow_panics`](super::JobsBuilder::allow_panics).
///
/// ```
/// use jobq::testing::{Jobs, assert_enqueued};
/// use jobq::{BoxError, Client, job};
///
/// #[job(retries = 3, delay = "1d")]
/// async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
///     Ok(())
/// }
///
/// async fn sign_up(client: &Client) -> jobq::Result<()> {
///     client.enqueue(SendWelcome { user_id: 7, email: "ann@example.com".into() }).await?;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let jobs = Jobs::new().register::<SendWelcome>().start().await;
/// sign_up(jobs.client()).await?;
/// assert_enqueued!(jobs, SendWelcome { user_id: 7, email } if email.ends_with(".com"));
/// jobs.drain().await.all_completed();
/// # Ok(())
/// # }
/// ```
pub struct Jobs {
    pub(super) worker: Inline,
    pub(super) client: Client,
    pub(super) memory: Memory,
    pub(super) clock: Clock,
    pub(super) allows_panics: bool,
    /// Held by a [`during`](Self::during) that is running.
    pub(super) interval: Mutex<()>,
}

impl Jobs {
    /// The client, for the code under test. Its calls never wait.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The time of the clock, which [`JobContext::now`](crate::JobContext::now) returns as well.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Runs the jobs that are due, in the order of their times, and those that they enqueue, until
    /// none is due. The clock stands still.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// # #[job] async fn send_welcome(user_id: u64) -> Result<(), BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let jobs = Jobs::new().register::<SendWelcome>().start().await;
    /// jobs.client().enqueue(SendWelcome { user_id: 7 }).await?;
    /// let ran = jobs.drain().await;
    /// assert!(ran.attempts()[0].is_completed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If a job panics; after 10,000 attempts, with the jobs that ran most often.
    pub async fn drain(&self) -> Ran {
        let mut ran = Ran::default();
        self.run_due(&mut ran).await;
        ran
    }

    /// Moves the clock forward, a `Duration` or its text, such as `"3d"`, and runs each job at its
    /// time: delayed jobs, retries, snoozed jobs, events, and all that they enqueue. If the clock of
    /// tokio is paused, it moves as well.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// # #[job] async fn remind(user_id: u64) -> Result<(), BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let jobs = Jobs::new().register::<Remind>().start().await;
    /// jobs.client().enqueue(Remind { user_id: 7 }).delay("3d").await?;
    /// assert!(jobs.advance("2d").await.attempts().is_empty());
    /// jobs.advance("1d").await.all_completed();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As [`drain`](Self::drain); if the text is no duration.
    pub async fn advance(&self, by: impl IntoPeriod) -> Ran {
        let by = by.into_period().unwrap_or_else(|problem| panic!("{problem}"));
        let end = self.now().checked_add(by).expect("the time is within the range of `SystemTime`");
        let mut ran = Ran::default();
        loop {
            self.run_due(&mut ran).await;
            // A job may have made a schedule.
            let next = self.tick().await.into_iter();
            let next = next.chain(self.memory.next_due(|job| self.worker.can_run(job))).min();
            match next.filter(|due| *due <= end) {
                Some(due) => self.move_to(due).await,
                None => break,
            }
        }
        self.move_to(end).await;
        ran
    }

    async fn move_to(&self, time: SystemTime) {
        let by = time.duration_since(self.now()).unwrap_or_default();
        if by > Duration::ZERO {
            self.clock.set(time);
            paused::advance(by).await;
        }
    }

    /// Enqueues the jobs of schedules that are due, and returns when the next one is.
    #[cfg(feature = "schedules")]
    async fn tick(&self) -> Option<SystemTime> {
        self.worker
            .tick()
            .await
            .unwrap_or_else(|error| panic!("the schedules of the test: {error}"))
    }

    #[cfg(not(feature = "schedules"))]
    #[allow(clippy::unused_async)] // as with schedules
    async fn tick(&self) -> Option<SystemTime> {
        None
    }

    async fn run_due(&self, ran: &mut Ran) {
        self.tick().await;
        while let Some(delivery) = self.memory.claim(|job| self.worker.can_run(job)) {
            // Schedules end no loop, however far the clock is moved.
            ran.unscheduled += usize::from(delivery.envelope().schedule().is_none());
            assert!(ran.unscheduled <= MOST_ATTEMPTS, "{}", endless(ran));
            let (attempted, delivery, settlement) = self.attempt(delivery).await;
            settle(delivery, settlement).await;
            ran.attempts.push(attempted);
        }
    }

    /// Runs an enqueued job twice, as after a lost acknowledgement: the same attempt is delivered
    /// again. The second end counts.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// # use jobq::State;
    /// #[job]
    /// async fn count(runs: State<Arc<AtomicU32>>) -> Result<(), BoxError> {
    ///     runs.fetch_add(1, Ordering::Relaxed);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let jobs = Jobs::new().state(Arc::clone(&runs)).register::<Count>().start().await;
    /// let id = jobs.client().enqueue(Count {}).await?;
    /// jobs.deliver_twice(id).await.all_completed();
    /// assert_eq!(runs.load(Ordering::Relaxed), 2); // this job is not idempotent
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If a job panics; if there is no such job, it is not due or has no function.
    pub async fn deliver_twice(&self, id: JobId) -> Ran {
        let first = self.crash_before_ack(id).await;
        let (second, delivery, settlement) = self.attempt(self.claim(id)).await;
        settle(delivery, settlement).await;
        Ran { attempts: vec![first, second], ..Ran::default() }
    }

    /// Runs an enqueued job whose worker dies after the function has ended and before the
    /// acknowledgement: the job is ready again, as the same attempt.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// # #[job] async fn charge(order: u64) -> Result<(), BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let jobs = Jobs::new().register::<Charge>().start().await;
    /// let id = jobs.client().enqueue(Charge { order: 7 }).await?;
    /// jobs.crash_before_ack(id).await;
    /// let ran = jobs.drain().await;
    /// assert_eq!(ran.attempts()[0].attempt(), 1); // the crash used up none
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As [`deliver_twice`](Self::deliver_twice).
    pub async fn crash_before_ack(&self, id: JobId) -> Attempted {
        let (attempted, delivery, _) = self.attempt(self.claim(id)).await;
        self.memory.crash(delivery);
        attempted
    }

    fn claim(&self, id: JobId) -> Delivery {
        let delivery = match self.memory.claim_id(id) {
            Ok(delivery) => delivery,
            Err(Unclaimed::Absent) => panic!("no job {id} is enqueued: it has ended, or never was"),
            Err(Unclaimed::DueAt(due)) => {
                let wait = due.and_then(|due| due.duration_since(self.now()).ok());
                let wait = wait.map_or_else(|| "never".to_owned(), period::format);
                panic!("job {id} is not due yet but in {wait}; move the clock by `advance` first")
            }
        };
        let envelope = delivery.envelope();
        assert!(
            self.worker.can_run(envelope),
            "job `{}` has no function here; add it by `.register` or `.handle` before `.start()`",
            self.worker.name_of(envelope)
        );
        delivery
    }

    /// Makes an attempt, up to its settlement.
    pub(super) async fn attempt(&self, delivery: Delivery) -> (Attempted, Delivery, Settlement) {
        let (id, attempt, at) = (delivery.envelope().id, delivery.attempt, self.now());
        let job = self.worker.name_of(delivery.envelope()).to_owned();
        let (delivery, decision) = self.worker.attempt(delivery).await;
        assert!(
            self.allows_panics || !decision.failure.is_panic(),
            "job `{job}` ({id}), attempt {attempt}: {}",
            decision.failure.error()
        );
        let end = End::of(&decision);
        (Attempted { job, id, attempt, at, end }, delivery, decision.settlement)
    }

    /// Awaits a future, and returns its value with the jobs and events that were enqueued
    /// meanwhile, for assertions.
    ///
    /// ```
    /// # use jobq::testing::{Jobs, assert_enqueued, refute_enqueued};
    /// # use jobq::{BoxError, job};
    /// # #[job] async fn audit(what: String) -> Result<(), BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let jobs = Jobs::new().register::<Audit>().start().await;
    /// let new = jobs.during(jobs.client().enqueue(Audit { what: "login".into() })).await;
    /// assert_enqueued!(new, 1, Audit { .. });
    /// let id = new.value?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If another `during` is running: the jobs of the two could not be told apart.
    pub async fn during<F: IntoFuture>(&self, work: F) -> During<F::Output> {
        let Ok(_interval) = self.interval.try_lock() else {
            panic!(
                "two calls of `during` overlap, and their jobs cannot be told apart; await one \
                 before the other, or give each a `Jobs` of its own"
            );
        };
        let before = self.record();
        let value = work.into_future().await;
        let mut record = self.record();
        record.jobs.drain(..before.jobs.len());
        record.events.drain(..before.events.len());
        During { value, record }
    }

    /// The failed jobs of this type, the oldest first.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// #[job(retries = 0)]
    /// async fn charge(order: u64) -> Result<(), BoxError> {
    ///     Err("no money".into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let jobs = Jobs::new().register::<Charge>().start().await;
    /// jobs.client().enqueue(Charge { order: 7 }).await?;
    /// let ran = jobs.drain().await;
    /// assert_eq!(ran.attempts()[0].error(), Some("no money"));
    /// assert_eq!(jobs.failed::<Charge>()[0].error(), "no money");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn failed<J: Job>(&self) -> Vec<FailedJob> {
        let mut failed = self.memory.failed(queue_of::<J>());
        // An event names no job.
        failed.retain(|job| job.name() == J::NAME || job.name().is_empty());
        failed
    }

    /// The jobs of this type that are enqueued and have not run yet, in order.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// # #[job] async fn charge(order: u64) -> Result<(), BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let jobs = Jobs::new().register::<Charge>().start().await;
    /// jobs.client().enqueue(Charge { order: 7 }).await?;
    /// assert_eq!(jobs.enqueued::<Charge>()[0].order, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If a payload cannot be read as this type.
    #[must_use]
    pub fn enqueued<J: Job>(&self) -> Vec<J> {
        let jobs = self.record().jobs.into_iter();
        let jobs = jobs.filter(|job| job.name == J::NAME && job.runs.is_empty());
        jobs.map(|job| codec::decode(&job.payload).expect("it is a payload of its type")).collect()
    }
}

impl Recorded for Jobs {
    fn record(&self) -> Record {
        self.memory.record(|envelope| self.worker.name_of(envelope))
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("memory", &self.memory).finish_non_exhaustive()
    }
}

async fn settle(delivery: Delivery, settlement: Settlement) {
    let settled = delivery.settle(settlement).await;
    settled.expect("the client of the test is open while jobs run");
}

/// The text about jobs that never end.
fn endless(ran: &Ran) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for attempt in &ran.attempts {
        *counts.entry(attempt.job()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<_> =
        counts.iter().take(5).map(|(job, count)| format!("`{job}` {count} times")).collect();
    format!(
        "{MOST_ATTEMPTS} attempts were made, and more jobs are due: {} ran; does a job enqueue \
         itself without a delay, or is the clock moved too far at once?",
        counts.join(", ")
    )
}
