//! Seats of queues: rows with an owner. A seat whose owner is not in the file any more is free.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::OptionalExtension as _;
use tokio::sync::watch;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::push;
use super::store::{Store, unknown};
use crate::background;
use crate::engine::{
    NotPushed, Seat, SeatValue, Seats, check_change, check_list, check_waiting, not_held,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Envelope;

/// How often the file is looked at for what other processes have changed.
const POLL: Duration = Duration::from_millis(500);

/// The most changes that are read at once.
const AT_ONCE: i64 = 100;

/// The seats of an engine.
#[derive(Debug)]
pub(super) struct SqliteSeats {
    inbox: Inbox,
    /// Counts what this engine has changed, for those who wait.
    news: watch::Sender<u64>,
}

impl SqliteSeats {
    pub(super) fn new(inbox: Inbox) -> Self {
        Self { inbox, news: watch::Sender::new(0) }
    }
}

#[async_trait]
impl Seats for SqliteSeats {
    async fn take(&self, queue: &str) -> Result<Box<dyn Seat>> {
        let claim = Claim::new(&self.inbox, self.news.clone(), queue)?;
        let mut news = self.news.subscribe();
        loop {
            news.borrow_and_update();
            // Without the lock of the file, which only one that may take the seat needs.
            let name = queue.to_owned();
            if !self.inbox.read(move |store| is_held(store, &name)).await? {
                let (name, number) = (queue.to_owned(), claim.number);
                let taken = self.inbox.run(move |store| take(store, &name, number)).await??;
                if let Some((row, value)) = taken {
                    let arrived = VecDeque::new();
                    return Ok(Box::new(Held { claim, row, value, arrived, last: 0, news }));
                }
            }
            // Whether something has changed or not.
            let _ = timeout(POLL, news.changed()).await;
        }
    }

    async fn exists(&self, queue: &str) -> Result<bool> {
        let queue = queue.to_owned();
        self.inbox.read(move |store| exists(store, &queue)).await
    }

    async fn change(&self, queue: &str, change: Vec<u8>) -> Result<()> {
        check_change(&change)?;
        let queue = queue.to_owned();
        self.inbox.run(move |store| add_change(store, &queue, &change)).await??;
        self.news.send_modify(|count| *count += 1);
        Ok(())
    }
}

/// The claim to a seat, for which the engine needs a lease. Its end frees the seat if it was taken, also
/// by a call that nobody waited for.
#[derive(Debug)]
struct Claim {
    inbox: Inbox,
    news: watch::Sender<u64>,
    queue: String,
    /// Tells it from other claims of this engine.
    number: i64,
}

impl Claim {
    fn new(inbox: &Inbox, news: watch::Sender<u64>, queue: &str) -> Result<Self> {
        inbox.change(|feeds| feeds.holders += 1)?;
        let number = i64::try_from(inbox.number()).unwrap_or(i64::MAX);
        Ok(Self { inbox: inbox.clone(), news, queue: queue.to_owned(), number })
    }

    /// Frees the seat, and returns when that is written. It is sent at once.
    fn free(&self) -> impl Future<Output = ()> + Send + use<> {
        let (queue, number, news) = (self.queue.clone(), self.number, self.news.clone());
        let freeing = self.inbox.run(move |store| {
            let (Some(row), true) = (store.queue(&queue)?, has_seats(store)?) else {
                return Ok(());
            };
            let sql =
                "UPDATE seats SET owner = NULL WHERE queue = ?1 AND owner = ?2 AND number = ?3";
            store.connection.prepare_cached(sql)?.execute((row, store.owner, number)).map(drop)
        });
        async move {
            // An engine that is closed has no lease, so that its seats are free.
            let _ = freeing.await;
            news.send_modify(|count| *count += 1);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        background::spawn(self.free());
        // An engine that is closed has no seats.
        let _ = self.inbox.change(|feeds| feeds.holders -= 1);
    }
}

/// The row of a seat as one holder has it.
#[derive(Debug, Clone, Copy)]
struct Row {
    queue: i64,
    owner: i64,
    number: i64,
}

impl Row {
    /// Changes a column of the row, unless it has another holder.
    fn set(self, store: &Store<'_>, column: &str, value: &[u8]) -> rusqlite::Result<bool> {
        if !self.is_held(store)? {
            return Ok(false);
        }
        let sql = format!("UPDATE seats SET {column} = ?2 WHERE queue = ?1");
        store.connection.prepare_cached(&sql)?.execute((self.queue, value))?;
        Ok(true)
    }

    /// Whether the engine has the lease with which it took the seat, and the seat.
    fn is_held(self, store: &Store<'_>) -> rusqlite::Result<bool> {
        let Self { queue, owner, number } = self;
        let sql = "SELECT 1 FROM seats WHERE queue = ?1 AND owner = ?2 AND number = ?3";
        Ok(store.owner == Some(owner)
            && store.connection.prepare_cached(sql)?.exists((queue, owner, number))?)
    }
}

/// Whether the file has seats: one of the schema before has none.
fn has_seats(store: &Store<'_>) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'seats'";
    store.connection.prepare_cached(sql)?.exists([])
}

/// Whether somebody who is in the file holds the seat of a queue.
fn is_held(store: &Store<'_>, name: &str) -> rusqlite::Result<bool> {
    if !has_seats(store)? {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM seats JOIN queues ON queues.id = queue
        WHERE namespace = ?1 AND name = ?2 AND owner IN (SELECT id FROM owners)";
    store.connection.prepare_cached(sql)?.exists((store.namespace, name))
}

/// Whether a queue has a seat, or changes for one.
fn exists(store: &Store<'_>, name: &str) -> rusqlite::Result<bool> {
    if !has_seats(store)? {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM queues WHERE namespace = ?1 AND name = ?2 AND NOT deleted
        AND (id IN (SELECT queue FROM seats) OR id IN (SELECT queue FROM seat_changes))";
    store.connection.prepare_cached(sql)?.exists((store.namespace, name))
}

/// The row of a queue that has a seat, or the error of one that has none.
fn queue_of(store: &mut Store<'_>, name: &str) -> rusqlite::Result<Result<i64>> {
    let Some(queue) = store.queue(name)? else { return Ok(Err(unknown(name))) };
    let sql = "SELECT 1 FROM queues WHERE id = ?1 AND NOT deleted";
    if !store.connection.prepare_cached(sql)?.exists([queue])? {
        return Ok(Err(unknown(name)));
    }
    if !has_seats(store)? {
        let text = "the job file has the schema of an earlier version, which has no schedules; \
                    migrate it with `jobq migrate`";
        return Ok(Err(Error::new(ErrorKind::Refused, text)));
    }
    Ok(Ok(queue))
}

/// Takes the seat of a queue under this number, if it is free.
fn take(
    store: &mut Store<'_>,
    name: &str,
    number: i64,
) -> rusqlite::Result<Result<Option<(Row, SeatValue)>>> {
    let queue = match queue_of(store, name)? {
        Ok(queue) => queue,
        Err(error) => return Ok(Err(error)),
    };
    // A claim is a reason for a lease.
    let Some(owner) = store.owner else { return Ok(Err(not_held(name))) };
    let sql = "INSERT INTO seats (queue) VALUES (?1) ON CONFLICT DO NOTHING";
    store.connection.prepare_cached(sql)?.execute([queue])?;
    let sql = "UPDATE seats SET owner = ?2, number = ?3
        WHERE queue = ?1 AND (owner IS NULL OR owner NOT IN (SELECT id FROM owners))
        RETURNING list, position";
    let mut statement = store.connection.prepare_cached(sql)?;
    let taken = statement.query_row((queue, owner, number), |row| {
        let value = SeatValue { list: row.get(0)?, position: row.get(1)? };
        Ok((Row { queue, owner, number }, value))
    });
    Ok(Ok(taken.optional()?))
}

fn add_change(store: &mut Store<'_>, name: &str, change: &[u8]) -> rusqlite::Result<Result<()>> {
    let queue = match queue_of(store, name)? {
        Ok(queue) => queue,
        Err(error) => return Ok(Err(error)),
    };
    let sql = "SELECT count(*) FROM seat_changes WHERE queue = ?1";
    let waiting: i64 =
        store.connection.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
    if let Err(error) = check_waiting(name, waiting.unsigned_abs()) {
        return Ok(Err(error));
    }
    let sql = "INSERT INTO seat_changes (queue, change) VALUES (?1, ?2)";
    store.connection.prepare_cached(sql)?.execute((queue, change))?;
    Ok(Ok(()))
}

/// Deletes the seat of a queue.
pub(super) fn delete(store: &Store<'_>, queue: i64) -> rusqlite::Result<()> {
    if !has_seats(store)? {
        return Ok(());
    }
    for table in ["seats", "seat_changes"] {
        let sql = format!("DELETE FROM {table} WHERE queue = ?1");
        store.connection.prepare_cached(&sql)?.execute([queue])?;
    }
    Ok(())
}

/// A seat that is held.
#[derive(Debug)]
struct Held {
    claim: Claim,
    row: Row,
    value: SeatValue,
    /// Changes that were not returned yet, with their numbers.
    arrived: VecDeque<(i64, Vec<u8>)>,
    /// The number of the last change that was returned.
    last: i64,
    news: watch::Receiver<u64>,
}

impl Held {
    /// The error of a seat that is not held any more.
    fn lost(&self) -> Error {
        not_held(&self.claim.queue)
    }
}

#[async_trait]
impl Seat for Held {
    fn value(&self) -> &SeatValue {
        &self.value
    }

    async fn next_change(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some((number, change)) = self.arrived.pop_front() {
                self.last = number;
                return Ok(change);
            }
            self.news.borrow_and_update();
            let (row, last) = (self.row, self.last);
            let looking = self.claim.inbox.read(move |store| {
                if !row.is_held(store)? {
                    return Ok(Err(()));
                }
                let sql = "SELECT id, change FROM seat_changes WHERE queue = ?1 AND id > ?2
                    ORDER BY id LIMIT ?3";
                let mut statement = store.connection.prepare_cached(sql)?;
                let next = statement.query_map((row.queue, last, AT_ONCE), |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
                });
                Ok(Ok(next?.collect::<rusqlite::Result<_>>()?))
            });
            self.arrived = looking.await?.map_err(|()| self.lost())?;
            if self.arrived.is_empty() {
                let _ = timeout(POLL, self.news.changed()).await;
            }
        }
    }

    async fn write_list(&mut self, list: Vec<u8>) -> Result<()> {
        check_list(&list)?;
        let (row, taken, new) = (self.row, self.last, list.clone());
        let writing = self.claim.inbox.run(move |store| {
            if !row.set(store, "list", &new)? {
                return Ok(false);
            }
            let sql = "DELETE FROM seat_changes WHERE queue = ?1 AND id <= ?2";
            store.connection.prepare_cached(sql)?.execute((row.queue, taken))?;
            Ok(true)
        });
        if !writing.await? {
            return Err(self.lost());
        }
        self.value.list = list;
        Ok(())
    }

    /// In one transaction, so that no job comes twice.
    async fn advance(&mut self, jobs: Vec<Envelope>, position: Vec<u8>) -> Result<Vec<NotPushed>> {
        check_change(&position)?;
        let jobs: Vec<_> = jobs.into_iter().map(push::New::from).collect();
        let (row, new) = (self.row, position.clone());
        let writing = self.claim.inbox.run(move |store| {
            if !row.set(store, "position", &new)? {
                return Ok(None);
            }
            push::insert_batch(store, &jobs).map(Some)
        });
        let refused = writing.await?.ok_or_else(|| self.lost())?;
        self.value.position = position;
        Ok(refused)
    }

    async fn leave(self: Box<Self>) {
        self.claim.free().await;
    }
}
