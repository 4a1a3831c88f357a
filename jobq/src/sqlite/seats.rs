//! Seats of queues: rows with an owner. A seat whose owner is not in the file any more is free.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::OptionalExtension as _;
use tokio::sync::watch;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::push;
use super::store::{Store, unknown};
use crate::engine::{NotPushed, Seat, SeatValue, Seats, check_change, check_waiting, not_held};
use crate::error::{Error, Result};
use crate::job::Envelope;

/// How often the file is looked at for what other processes have changed.
const POLL: Duration = Duration::from_millis(500);

/// The seats of an engine.
#[derive(Debug)]
pub(super) struct SqliteSeats {
    inbox: Inbox,
    /// Counts what this engine has changed, for those who wait.
    changes: watch::Sender<u64>,
}

impl SqliteSeats {
    pub(super) fn new(inbox: Inbox) -> Self {
        Self { inbox, changes: watch::Sender::new(0) }
    }
}

#[async_trait]
impl Seats for SqliteSeats {
    async fn take(&self, queue: &str) -> Result<Box<dyn Seat>> {
        let interest = Interest::new(&self.inbox)?;
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let name = queue.to_owned();
            let taken = self.inbox.run(move |store| take(store, &name)).await??;
            if let Some((row, value)) = taken {
                let (queue, news) = (queue.to_owned(), self.changes.clone());
                let taken = 0;
                return Ok(Box::new(Held { interest, queue, row, value, taken, news, changes }));
            }
            // Whether something has changed or not.
            let _ = timeout(POLL, changes.changed()).await;
        }
    }

    async fn change(&self, queue: &str, change: Vec<u8>) -> Result<()> {
        check_change(&change)?;
        let queue = queue.to_owned();
        self.inbox.run(move |store| add_change(store, &queue, &change)).await??;
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }
}

/// Somebody who holds a seat or waits for one, for which the engine needs a lease.
#[derive(Debug)]
struct Interest {
    inbox: Inbox,
}

impl Interest {
    fn new(inbox: &Inbox) -> Result<Self> {
        inbox.change(|feeds| feeds.seats += 1)?;
        Ok(Self { inbox: inbox.clone() })
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        // An engine that is closed has no seats.
        let _ = self.inbox.change(|feeds| feeds.seats -= 1);
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
    /// Changes columns of the row, unless it has another holder.
    fn set(self, store: &Store<'_>, column: &str, value: &[u8]) -> rusqlite::Result<bool> {
        let sql = format!(
            "UPDATE seats SET {column} = ?4 WHERE queue = ?1 AND owner = ?2 AND number = ?3"
        );
        let Self { queue, owner, number } = self;
        let row = (queue, owner, number, value);
        Ok(self.is_held(store) && store.connection.prepare_cached(&sql)?.execute(row)? > 0)
    }

    /// Whether the engine has the lease with which it took the seat.
    fn is_held(self, store: &Store<'_>) -> bool {
        store.owner == Some(self.owner)
    }
}

/// Takes the seat of a queue, if it is free.
fn take(store: &mut Store<'_>, name: &str) -> rusqlite::Result<Result<Option<(Row, SeatValue)>>> {
    let (Some(queue), Some(owner)) = (store.queue(name)?, store.owner) else {
        return Ok(Err(unknown(name)));
    };
    let sql = "INSERT INTO seats (queue) VALUES (?1) ON CONFLICT DO NOTHING";
    store.connection.prepare_cached(sql)?.execute([queue])?;
    let sql = "UPDATE seats SET owner = ?2, number = number + 1
        WHERE queue = ?1 AND (owner IS NULL OR owner NOT IN (SELECT id FROM owners))
        RETURNING number, list, position";
    let mut statement = store.connection.prepare_cached(sql)?;
    let taken = statement.query_row((queue, owner), |row| {
        let value = SeatValue { list: row.get(1)?, position: row.get(2)? };
        Ok((Row { queue, owner, number: row.get(0)? }, value))
    });
    Ok(Ok(taken.optional()?))
}

fn add_change(store: &mut Store<'_>, name: &str, change: &[u8]) -> rusqlite::Result<Result<()>> {
    let Some(queue) = store.queue(name)? else { return Ok(Err(unknown(name))) };
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

/// Deletes the seat of a queue. A file of the schema before has none.
pub(super) fn delete(store: &Store<'_>, queue: i64) -> rusqlite::Result<()> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'seats'";
    if !store.connection.prepare_cached(sql)?.exists([])? {
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
    interest: Interest,
    queue: String,
    row: Row,
    value: SeatValue,
    /// The number of the last change that was returned.
    taken: i64,
    news: watch::Sender<u64>,
    changes: watch::Receiver<u64>,
}

impl Held {
    /// The error of a seat that is not held any more.
    fn lost(&self) -> Error {
        not_held(&self.queue)
    }

    /// Frees the seat, and returns when that is written.
    fn free(&self) -> impl Future<Output = ()> + Send + use<> {
        let (row, news) = (self.row, self.news.clone());
        let sql = "UPDATE seats SET owner = NULL WHERE queue = ?1 AND owner = ?2 AND number = ?3";
        let freeing = self.interest.inbox.run(move |store| {
            let Row { queue, owner, number } = row;
            store.connection.prepare_cached(sql)?.execute((queue, owner, number))
        });
        async move {
            // An engine that is closed has no lease, so that its seats are free.
            let _ = freeing.await;
            news.send_modify(|count| *count += 1);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It is sent already, and nobody waits for the answer but those who look for themselves.
        drop(self.free());
    }
}

#[async_trait]
impl Seat for Held {
    fn value(&self) -> &SeatValue {
        &self.value
    }

    async fn next_change(&mut self) -> Result<Vec<u8>> {
        loop {
            self.changes.borrow_and_update();
            let (row, taken) = (self.row, self.taken);
            let sql = "SELECT id, change FROM seat_changes WHERE queue = ?1 AND id > ?2
                ORDER BY id LIMIT 1";
            let looking = self.interest.inbox.read(move |store| {
                let mut statement = store.connection.prepare_cached(sql)?;
                let next = statement.query_row((row.queue, taken), |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
                });
                Ok((next.optional()?, row.is_held(store)))
            });
            match looking.await? {
                (_, false) => return Err(self.lost()),
                (Some((number, change)), true) => {
                    self.taken = number;
                    return Ok(change);
                }
                (None, true) => drop(timeout(POLL, self.changes.changed()).await),
            }
        }
    }

    async fn write_list(&mut self, list: Vec<u8>) -> Result<()> {
        let (row, taken, new) = (self.row, self.taken, list.clone());
        let writing = self.interest.inbox.run(move |store| {
            let is_held = row.set(store, "list", &new)?;
            if is_held {
                let sql = "DELETE FROM seat_changes WHERE queue = ?1 AND id <= ?2";
                store.connection.prepare_cached(sql)?.execute((row.queue, taken))?;
            }
            Ok(is_held)
        });
        if !writing.await? {
            return Err(self.lost());
        }
        self.value.list = list;
        Ok(())
    }

    /// In one transaction, so that no job comes twice.
    async fn advance(&mut self, jobs: Vec<Envelope>, position: Vec<u8>) -> Result<Vec<NotPushed>> {
        let jobs: Vec<_> = jobs.into_iter().map(push::New::from).collect();
        let (row, new) = (self.row, position.clone());
        let writing = self.interest.inbox.run(move |store| {
            let is_held = row.set(store, "position", &new)?;
            Ok(is_held.then_some(push::insert_batch(store, if is_held { &jobs } else { &[] })?))
        });
        let refused = writing.await?.ok_or_else(|| self.lost())?;
        self.value.position = position;
        Ok(refused)
    }

    async fn leave(self: Box<Self>) {
        self.free().await;
    }
}
