//! Jobs that leave the file for another engine.
//!
//! A job that was taken has this engine as its owner, as one in flight does, so that no worker gets it
//! and it returns when the engine is gone. That would count as a crash of the job: so it is counted as
//! one less from when it is taken.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Row;

use super::failed::{self, Ahead};
use crate::background;
use crate::engine::{Admission, Departing, Disposition, Next, QueueName, QueueSpec, Scope};
use crate::error::Result;
use crate::job::{EventEnvelope, JobId};
use crate::sqlite::claim::{self, Claimed};
use crate::sqlite::inbox::Inbox;
use crate::sqlite::lane::Lane;
use crate::sqlite::settle::{DELETE, stale};
use crate::sqlite::store::{Store, unknown};
use crate::sqlite::{columns, events, outbox};

/// The most that is taken at a time.
const BATCH: usize = 500;
/// The size of payloads at which a batch is full.
const FULL_BYTES: usize = 16 * 1024 * 1024;
/// An event that is due sooner is left to be published here: the way to another engine may take longer.
const SOON: i64 = 30_000;

/// The queues of the namespace, with their subscriptions.
pub(super) fn queues(store: &mut Store<'_>) -> rusqlite::Result<Vec<QueueSpec>> {
    let mut specs = Vec::new();
    for name in super::queues::names(store)? {
        let mut spec = QueueSpec::new(&name);
        if let Some(queue) = store.queue(&name)? {
            spec = spec.patterns(events::patterns(store.connection, queue)?);
            spec.priorities = Lane::of_queue(store.connection, store.version, queue)?.len() > 1;
        }
        specs.push(spec);
    }
    Ok(specs)
}

/// Begins to take jobs or events.
pub(super) async fn begin(inbox: &Inbox, scope: Scope) -> Result<Box<dyn Departing>> {
    let from = match scope {
        Scope::Shared => From::Events,
        Scope::Queue(name) => {
            let name = QueueName::new(&name)?.as_str();
            let queue = inbox.read(move |store| store.queue(name)).await?;
            From::Queue { queue: queue.ok_or_else(|| unknown(name))?, name }
        }
    };
    // Rows of the outbox are jobs like the others.
    while inbox.call(outbox::empty).await? {}
    inbox.change(|feeds| feeds.holders += 1)?;
    let (taken, claimed) = (Vec::new(), Vec::new());
    Ok(Box::new(Leaving { inbox: inbox.clone(), from, taken, claimed, failed: 0, events: 0 }))
}

/// From where jobs are taken.
#[derive(Debug, Clone, Copy)]
enum From {
    Queue { queue: i64, name: &'static str },
    Events,
}

/// Something that was taken, by its row.
#[derive(Debug, Clone, Copy)]
enum Taken {
    Job(Held),
    Failed { seq: i64, id: JobId },
    Event { seq: i64, id: JobId },
}

/// A job whose owner is this engine.
#[derive(Debug, Clone, Copy)]
struct Held {
    seq: i64,
    owner: i64,
    id: JobId,
}

#[derive(Debug)]
struct Leaving {
    inbox: Inbox,
    from: From,
    /// What was taken last.
    taken: Vec<Taken>,
    /// The jobs that are kept until the end.
    claimed: Vec<Held>,
    /// The last failed job and the last event that stay.
    failed: i64,
    events: i64,
}

/// The rows that are not in use, or whether there are others.
enum Found {
    Rows(Vec<(Taken, Admission)>),
    InUse(bool),
}

#[async_trait]
impl Departing for Leaving {
    async fn next(&mut self) -> Result<Next> {
        self.give_back();
        let (from, failed, events) = (self.from, self.failed, self.events);
        let finding = self.inbox.call(move |store| match from {
            From::Queue { queue, name } => find_jobs(store, (queue, name), failed),
            From::Events => find_events(store, events),
        });
        Ok(match finding.await? {
            Found::Rows(rows) => {
                let (taken, batch) = rows.into_iter().unzip();
                self.taken = taken;
                Next::Taken(batch)
            }
            Found::InUse(true) => Next::Later,
            Found::InUse(false) => Next::Empty,
        })
    }

    async fn settle(&mut self, dispositions: Vec<Disposition>) -> Result<()> {
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        for (taken, disposition) in std::mem::take(&mut self.taken).into_iter().zip(dispositions) {
            match (disposition, taken) {
                (Disposition::Removed, taken) => gone.push(taken),
                (Disposition::Returned, Taken::Job(held)) => back.push(held),
                (Disposition::Kept, Taken::Job(held)) => self.claimed.push(held),
                (Disposition::Kept, Taken::Failed { seq, .. }) => self.failed = seq,
                (Disposition::Kept, Taken::Event { seq, .. }) => self.events = seq,
                (Disposition::Returned, _) => {}
            }
        }
        let settling = self.inbox.call(move |store| {
            let mut is_held = true;
            for taken in &gone {
                is_held &= remove(store, *taken)?;
            }
            release(store, &back)?;
            Ok(is_held)
        });
        if settling.await? { Ok(()) } else { Err(stale()) }
    }
}

impl Leaving {
    /// Gives back what was taken and not settled.
    fn give_back(&mut self) {
        let jobs = std::mem::take(&mut self.taken).into_iter().filter_map(|taken| match taken {
            Taken::Job(held) => Some(held),
            Taken::Failed { .. } | Taken::Event { .. } => None,
        });
        self.release(jobs.collect());
    }

    fn release(&self, held: Vec<Held>) {
        if !held.is_empty() {
            // An engine that is closed has given back all.
            background::spawn(self.inbox.call(move |store| release(store, &held)));
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.give_back();
        let kept = std::mem::take(&mut self.claimed);
        self.release(kept);
        let _ = self.inbox.change(|feeds| feeds.holders -= 1);
    }
}

/// Takes jobs of a queue that no worker has, or else failed ones after this row.
fn find_jobs(
    store: &mut Store<'_>,
    (queue, name): (i64, &'static str),
    after: i64,
) -> rusqlite::Result<Found> {
    let now = store.clock.now();
    // Those of events are jobs once they are due.
    events::release(store.connection, store.namespace, now)?;
    let Some(owner) = store.owner else { return Ok(Found::InUse(true)) };
    let mut rows = Batch::default();
    for lane in Lane::of_queue(store.connection, store.version, queue)? {
        let mut select = store.connection.prepare_cached(lane.sql(&claim::SELECT))?;
        let mut found = select.query([queue])?;
        while rows.has_room()
            && let Some(row) = found.next()?
        {
            rows.add_job(claim::read(row, name)?, owner, now);
        }
    }
    let mut select = store.connection.prepare_cached(claim::SELECT_SOLO)?;
    let mut found = select.query([queue])?;
    while rows.has_room()
        && let Some(row) = found.next()?
    {
        if row.get::<_, Option<i64>>("owner")?.is_none() {
            rows.add_job(claim::read(row, name)?, owner, now);
        }
    }
    let sql = "UPDATE jobs SET owner = ?2, crashes = crashes - 1 WHERE seq = ?1";
    let mut take = store.connection.prepare_cached(sql)?;
    for (taken, _) in &rows.rows {
        if let Taken::Job(Held { seq, .. }) = taken {
            take.execute((seq, owner))?;
        }
    }
    if rows.rows.is_empty() {
        let ahead = Ahead { queue, after, last: i64::MAX };
        for (seq, job) in failed::read_batch(store, ahead, name)? {
            rows.rows.push((Taken::Failed { seq, id: job.id() }, Admission::Failed(job)));
        }
    }
    if !rows.rows.is_empty() {
        return Ok(Found::Rows(rows.rows));
    }
    let sql = "SELECT 1 FROM jobs WHERE owner IS NOT NULL AND owner <> ?2 AND queue = ?1";
    let mut others = store.connection.prepare_cached(sql)?;
    Ok(Found::InUse(others.exists((queue, owner))?))
}

/// Takes events after this row that are not due soon.
fn find_events(store: &mut Store<'_>, after: i64) -> rusqlite::Result<Found> {
    let now = store.clock.now();
    events::release(store.connection, store.namespace, now)?;
    let sql = "SELECT seq, due, job_id, published_at, expires_at, topic, enqueued_by, payload,
            headers, content_encoding
        FROM events WHERE namespace = ?1 AND seq > ?2 AND due > ?3 ORDER BY seq";
    let mut select = store.connection.prepare_cached(sql)?;
    let mut found = select.query((store.namespace, after, now.saturating_add(SOON)))?;
    let mut rows = Batch::default();
    while rows.has_room()
        && let Some(row) = found.next()?
    {
        let (seq, event) = (row.get(0)?, read_event(row, now)?);
        rows.bytes += event.payload.len();
        rows.rows.push((Taken::Event { seq, id: event.id }, Admission::Event(event)));
    }
    if !rows.rows.is_empty() {
        return Ok(Found::Rows(rows.rows));
    }
    let sql = "SELECT 1 FROM events WHERE namespace = ?1 AND seq > ?2 AND due <= ?3";
    let soon = (store.namespace, after, now.saturating_add(SOON));
    Ok(Found::InUse(store.connection.prepare_cached(sql)?.exists(soon)?))
}

fn read_event(row: &Row<'_>, now: i64) -> rusqlite::Result<EventEnvelope> {
    let mut event = EventEnvelope::new(columns::text(row, 5)?, row.get(7)?);
    event.id = JobId::from_bytes(row.get(2)?);
    event.delay = left(row.get(1)?, now);
    event.published_at = columns::to_time(row.get(3)?);
    event.expires_at = row.get::<_, Option<_>>(4)?.map(columns::to_time);
    event.enqueued_by = columns::text_or_null(row, 6)?.map(Into::into);
    event.headers = columns::to_headers(columns::text_or_null(row, 8)?.as_deref());
    event.content_encoding = columns::text_or_null(row, 9)?.map(Into::into);
    Ok(event)
}

/// What is left of a wait that ends then.
fn left(due: i64, now: i64) -> Duration {
    columns::to_wait(due.saturating_sub(now))
}

/// What is taken in one transaction.
#[derive(Default)]
struct Batch {
    rows: Vec<(Taken, Admission)>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self) -> bool {
        self.rows.len() < BATCH && self.bytes < FULL_BYTES
    }

    fn add_job(&mut self, claimed: Claimed, owner: i64, now: i64) {
        let Claimed { seq, mut envelope, due, starts, .. } = claimed;
        envelope.delay = left(columns::of_time(due), now);
        self.bytes += envelope.payload.len();
        let held = Held { seq, owner, id: envelope.id };
        let admission = match starts {
            None => Admission::Job(envelope),
            Some(starts) => Admission::Solo(envelope, starts),
        };
        self.rows.push((Taken::Job(held), admission));
    }
}

/// Removes what is stored elsewhere. False for a job that this engine does not hold any more.
fn remove(store: &Store<'_>, taken: Taken) -> rusqlite::Result<bool> {
    let delete = |sql, seq, id: JobId| {
        store.connection.prepare_cached(sql)?.execute((seq, id.as_bytes())).map(drop)
    };
    match taken {
        Taken::Job(Held { seq, owner, id }) => {
            let row = (seq, owner, id.as_bytes());
            return Ok(store.connection.prepare_cached(DELETE)?.execute(row)? > 0);
        }
        // Nobody holds these. An operator may have settled the job, and a pool published the event.
        Taken::Failed { seq, id } => {
            delete("DELETE FROM failed WHERE seq = ?1 AND job_id = ?2", seq, id)?;
        }
        Taken::Event { seq, id } => {
            delete("DELETE FROM events WHERE seq = ?1 AND job_id = ?2", seq, id)?;
        }
    }
    Ok(true)
}

/// Gives jobs back as they were.
fn release(store: &mut Store<'_>, held: &[Held]) -> rusqlite::Result<()> {
    let sql = "UPDATE jobs SET owner = NULL, crashes = crashes + 1
        WHERE seq = ?1 AND owner = ?2 AND job_id = ?3";
    let mut release = store.connection.prepare_cached(sql)?;
    for Held { seq, owner, id } in held {
        release.execute((seq, owner, id.as_bytes()))?;
    }
    Ok(())
}
