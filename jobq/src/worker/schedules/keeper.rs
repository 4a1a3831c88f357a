//! The holder of a seat: it merges changes into the book, enqueues what is due, and writes both parts.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;

use crate::client::Client;
use crate::engine::{MAX_LIST, Seat};
use crate::error::Result;
use crate::guard::lock;
use crate::job::{rfc3339, to_millis};
use crate::schedule::book::{self, Applied, Book, Tick};
use crate::schedule::change::{self, Change};
use crate::schedule::spec::Spec;

const _: () = assert!(book::MAX_LIST < MAX_LIST);

/// The most changes that are merged before the list is written.
const MOST_CHANGES: usize = 500;
/// The most jobs that are enqueued before the position is written.
const MOST_JOBS: usize = 500;

/// A seat with its book.
#[derive(Debug)]
pub(crate) struct Keeper {
    client: Client,
    queue: String,
    seat: Box<dyn Seat>,
    book: Arc<Mutex<Book>>,
}

/// The change that names a schedule of this program to the holder.
pub(super) fn naming(client: &Client, spec: &Spec) -> Vec<u8> {
    let (at_ms, by) = (to_millis(client.clock().now()), client.program().to_string());
    change::write(&Change::Code { spec: spec.clone(), at_ms, by })
}

impl Keeper {
    /// Reads the book of a seat.
    ///
    /// # Errors
    ///
    /// A book of another version of jobq.
    pub(crate) fn open(client: Client, queue: &str, seat: Box<dyn Seat>) -> Result<Self> {
        let (now, value) = (client.clock().now(), seat.value());
        let book = Book::open(queue, (&value.list, &value.position), now)?;
        let ahead = book.ahead_of(now).as_secs();
        if ahead > 0 {
            tracing::warn!(
                queue,
                seconds = ahead,
                "jobs of schedules were enqueued by a clock ahead of this machine's; the next ones \
                 follow when this one has reached it"
            );
        }
        let book = Arc::new(Mutex::new(book));
        Ok(Self { client, queue: queue.to_owned(), seat, book })
    }

    pub(super) fn book(&self) -> Arc<Mutex<Book>> {
        Arc::clone(&self.book)
    }

    fn now(&self) -> SystemTime {
        self.client.clock().now()
    }

    /// Adds the schedules in the code of the pool, which began at this time.
    pub(crate) async fn add_own(&mut self, own: &[Spec], began: SystemTime) -> Result<()> {
        let (by, now) = (self.client.program(), self.now());
        let changed = lock(&self.book).add_own(own, by, began, now);
        let (queue, schedules) = (&self.queue, lock(&self.book).len());
        tracing::debug!(queue, schedules, "schedules of the queue held");
        if changed { self.write_list().await } else { Ok(()) }
    }

    pub(crate) async fn next_change(&mut self) -> Result<Vec<u8>> {
        self.seat.next_change().await
    }

    /// Merges a change, and those that are there already.
    pub(crate) async fn merge(&mut self, first: Vec<u8>) -> Result<()> {
        let mut changes = vec![first];
        while changes.len() < MOST_CHANGES
            && let Some(next) = self.seat.next_change().now_or_never()
        {
            changes.push(next?);
        }
        let runs: Vec<_> = changes.iter().filter_map(|change| self.apply(change)).collect();
        // Before the changes are gone.
        self.enqueue(runs).await?;
        self.write_list().await
    }

    /// Applies a change to the book. Returns the job to be enqueued, if there is one.
    fn apply(&self, change: &[u8]) -> Option<Tick> {
        let (queue, now) = (&self.queue, self.now());
        let applied = match change::read(change) {
            Ok(change) => lock(&self.book).apply(change, now),
            Err(error) => {
                let why = format!("a change was ignored: {error}");
                lock(&self.book).refuse(why.clone());
                Applied::Refused(why)
            }
        };
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
    pub(crate) fn next(&self) -> Option<SystemTime> {
        lock(&self.book).next()
    }

    /// Enqueues the jobs that are due. Of deadlines that are later than this, some may be missed.
    pub(crate) async fn tick(&mut self, late: Duration) -> Result<()> {
        let now = self.now();
        let (ticks, before, position) = {
            let mut book = lock(&self.book);
            let before = book.position();
            (book.ticks(now, late), before, book.position())
        };
        let Some(mut ticks) = ticks else { return Ok(()) };
        let last = ticks.split_off(ticks.len().saturating_sub(MOST_JOBS));
        let mut first = ticks.into_iter().peekable();
        while first.peek().is_some() {
            self.advance(first.by_ref().take(MOST_JOBS).collect(), before.clone()).await?;
        }
        self.advance(last, position).await
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
            "job of a schedule not enqueued; the next time follows"
        );
    }

    /// Removes schedules in code that no pool has any more.
    pub(crate) async fn forget(&mut self) -> Result<()> {
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

    async fn write_list(&mut self) -> Result<()> {
        let list = lock(&self.book).list();
        self.seat.write_list(list).await
    }

    /// Leaves the seat to the next holder.
    pub(crate) async fn leave(self) {
        self.seat.leave().await;
    }
}
