//! The holder of a seat: it merges changes into the book, enqueues what is due, and writes both parts.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use tokio::time::timeout;

use crate::client::Client;
#[cfg(feature = "testing")]
use crate::engine::SeatValue;
use crate::engine::{MAX_LIST, Seat};
use crate::error::Result;
use crate::guard::lock;
use crate::job::{rfc3339, to_millis};
use crate::schedule::book::{self, Applied, Book, Tick, Ticks};
use crate::schedule::change::{self, Change};
use crate::schedule::spec::Spec;

const _: () = assert!(book::MAX_LIST < MAX_LIST);

/// The most changes that are merged before the list is written.
const MOST_CHANGES: usize = 500;
/// How long the next of the changes that wait may take.
const CHANGE_LIMIT: Duration = Duration::from_millis(50);

/// A seat with its book.
#[derive(Debug)]
pub(super) struct Keeper {
    client: Client,
    queue: String,
    seat: Box<dyn Seat>,
    book: Arc<Mutex<Book>>,
}

/// The change that names a schedule of this program, whose pool began at this time, to the holder.
pub(super) fn naming(client: &Client, spec: &Spec, began: SystemTime) -> Vec<u8> {
    let (at_ms, by) = (to_millis(began), client.program().to_string());
    change::write(&Change::Code { spec: spec.clone(), at_ms, by })
}

impl Keeper {
    /// Reads the book of a seat.
    ///
    /// # Errors
    ///
    /// A book of another version of jobq.
    pub(super) fn open(client: Client, queue: &str, seat: Box<dyn Seat>) -> Result<Self> {
        let (now, value) = (client.clock().now(), seat.value());
        let book = Book::open(queue, (&value.list, &value.position), now)?;
        let keeper = Self::with_book(client, queue, seat, Arc::new(Mutex::new(book)));
        keeper.compare_clock();
        Ok(keeper)
    }

    /// A keeper whose seat has what this book last wrote.
    pub(super) fn with_book(
        client: Client,
        queue: &str,
        seat: Box<dyn Seat>,
        book: Arc<Mutex<Book>>,
    ) -> Self {
        Self { client, queue: queue.to_owned(), seat, book }
    }

    pub(super) fn book(&self) -> Arc<Mutex<Book>> {
        Arc::clone(&self.book)
    }

    fn now(&self) -> SystemTime {
        self.client.clock().now()
    }

    /// Warns if jobs were enqueued by a clock that was ahead, since none are until this one is there.
    fn compare_clock(&self) {
        let seconds = lock(&self.book).ahead_of(self.now()).as_secs();
        if seconds > 0 {
            let queue = &self.queue;
            tracing::warn!(
                queue,
                seconds,
                "jobs of schedules were enqueued by a clock ahead of this machine's; the next ones \
                 follow when this one has reached it"
            );
        }
    }

    /// Adds the schedules in the code of the pool, which began at this time.
    pub(super) async fn add_own(&mut self, own: &[Spec], began: SystemTime) -> Result<()> {
        let (by, now) = (self.client.program(), self.now());
        let applied = lock(&self.book).add_own(own, by, began, now);
        let changed = applied.iter().any(|applied| *applied != Applied::Nothing);
        for applied in applied {
            self.tell(applied);
        }
        let (queue, schedules) = (&self.queue, lock(&self.book).len());
        tracing::debug!(queue, schedules, "schedules of the queue held");
        if changed { self.write_list().await } else { Ok(()) }
    }

    pub(super) async fn next_change(&mut self) -> Result<Vec<u8>> {
        self.seat.next_change().await
    }

    /// Merges the changes that were stored while nobody held the seat.
    pub(super) async fn merge_waiting(&mut self) -> Result<()> {
        while let Ok(change) = timeout(CHANGE_LIMIT, self.seat.next_change()).await {
            self.merge(change?).await?;
        }
        Ok(())
    }

    /// Merges a change, and those that are there already.
    pub(super) async fn merge(&mut self, first: Vec<u8>) -> Result<()> {
        let mut changes = vec![first];
        while changes.len() < MOST_CHANGES
            && let Some(next) = self.seat.next_change().now_or_never()
        {
            changes.push(next?);
        }
        let applied = changes.iter().map(|change| self.apply(change));
        let applied: Vec<_> = applied.collect();
        let runs = applied.into_iter().filter_map(|applied| self.tell(applied)).collect();
        // Before the changes are gone.
        self.enqueue(runs).await?;
        self.write_list().await
    }

    fn apply(&self, change: &[u8]) -> Applied {
        match change::read(change) {
            Ok(change) => lock(&self.book).apply(change, self.now()),
            Err(error) => {
                let why = format!("a change was ignored: {error}");
                lock(&self.book).refuse(why.clone());
                Applied::Refused(why)
            }
        }
    }

    /// Logs what a change did. Returns the job to be enqueued, if there is one.
    fn tell(&self, applied: Applied) -> Option<Tick> {
        let queue = &self.queue;
        match applied {
            Applied::Run(tick) => return Some(*tick),
            Applied::Refused(why) => {
                tracing::error!(queue, why, "change of a schedule refused");
            }
            Applied::Replaced { name, of } => tracing::warn!(
                queue,
                schedule = name,
                of,
                "schedule of another program replaced; give each program's schedules names of their own"
            ),
            Applied::Changed | Applied::Nothing => {}
        }
        None
    }

    /// When the next job is enqueued, if there is one.
    pub(super) fn next(&self) -> Option<SystemTime> {
        lock(&self.book).next()
    }

    /// Enqueues the jobs that are due. Of deadlines that are later than this, some may be missed.
    pub(super) async fn tick(&mut self, late: Duration) -> Result<()> {
        let now = self.now();
        let (ticks, position) = {
            let mut book = lock(&self.book);
            (book.ticks(now, late), book.position())
        };
        let Some(Ticks { jobs, skipped }) = ticks else { return Ok(()) };
        for (schedule, missed) in skipped {
            let queue = &self.queue;
            tracing::warn!(queue, schedule, missed, "missed times of a schedule skipped");
        }
        self.advance(jobs, position).await
    }

    /// Enqueues jobs, without a deadline.
    async fn enqueue(&mut self, ticks: Vec<Tick>) -> Result<()> {
        if ticks.is_empty() {
            return Ok(());
        }
        let position = lock(&self.book).position();
        self.advance(ticks, position).await
    }

    async fn advance(&mut self, ticks: Vec<Tick>, position: Vec<u8>) -> Result<()> {
        let (mut jobs, mut enqueued) = (Vec::new(), Vec::new());
        for tick in ticks {
            match self.client.periodic_job(&self.queue, &tick) {
                Ok(job) => {
                    jobs.push(job);
                    enqueued.push(tick);
                }
                Err(error) => self.refused(&tick, &error),
            }
        }
        let mut refused = self.seat.advance(jobs, position).await?.into_iter().peekable();
        for (place, tick) in enqueued.iter().enumerate() {
            match refused.next_if(|(refused, _)| *refused == place) {
                Some((_, error)) => self.refused(tick, &error),
                None => self.enqueued(tick),
            }
        }
        Ok(())
    }

    fn enqueued(&self, Tick { id, spec, due, missed }: &Tick) {
        lock(&self.book).note(&spec.name, None);
        let (queue, schedule, due) = (&self.queue, &spec.name, rfc3339::format(*due));
        if *missed > 0 {
            tracing::warn!(queue, schedule, %id, due, missed, "schedule has missed times");
        }
        tracing::debug!(queue, schedule, job = spec.job, %id, due, "job of a schedule enqueued");
    }

    fn refused(&self, Tick { id, spec, due, .. }: &Tick, error: &crate::Error) {
        lock(&self.book).note(&spec.name, Some(error.to_string()));
        let (queue, schedule, due) = (&self.queue, &spec.name, rfc3339::format(*due));
        tracing::error!(
            queue, schedule, job = spec.job, %id, due, %error,
            "job of a schedule not enqueued; the next one is enqueued at its time"
        );
    }

    /// Looks at the clock, and removes schedules in code that no pool has any more.
    pub(super) async fn upkeep(&mut self) -> Result<()> {
        self.compare_clock();
        let forgotten = lock(&self.book).forget(self.now());
        if forgotten.is_empty() {
            return Ok(());
        }
        for schedule in forgotten {
            let queue = &self.queue;
            tracing::info!(queue, schedule, "schedule removed: no pool has its job any more");
        }
        self.write_list().await
    }

    /// The value of the seat, as this keeper last wrote it.
    #[cfg(feature = "testing")]
    pub(super) fn value(&self) -> &SeatValue {
        self.seat.value()
    }

    async fn write_list(&mut self) -> Result<()> {
        let list = lock(&self.book).list();
        self.seat.write_list(list).await
    }

    /// Leaves the seat to the next holder.
    pub(super) async fn leave(self) {
        self.seat.leave().await;
    }
}
