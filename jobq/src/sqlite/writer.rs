//! The thread that owns the connection: it runs all commands in the inbox in one transaction, and
//! claims jobs for the consumers in the same one.

mod idle;
mod transaction;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::access::{Access, File};
use super::claim::{self, Look};
use super::clock::MachineClock;
use super::columns;
use super::deliveries::deliver;
use super::disk::Disk;
use super::events;
use super::failure::Failure;
use super::feeds::{Feed, Feeds, Steering, View};
use super::inbox::{Call, Command, Inbox, Settling};
use super::lease::{self, Lease};
use super::others::Others;
use super::outbox::{self, Outbox};
use super::place::{Identity, Place};
use super::push;
use super::settle;
use super::store::{Need, Prepared, Store};
use crate::engine::closed;

/// The most commands of one transaction.
const MAX_COMMANDS: usize = 4_096;

/// How often the time of the clock is stored.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the writer pauses after a failure, unless a command comes.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs commands until the engine is closed.
pub(super) fn run(
    File { connection, clock, access }: File,
    place: Place,
    namespace: String,
    lease: Duration,
    (inbox, commands): (Inbox, Receiver<Command>),
    steering: Box<dyn Steering>,
) {
    let mut writer = Writer {
        connection,
        clock,
        access,
        clock_stored: None,
        disk: Disk::new(),
        opened: place.identity(),
        place,
        namespace,
        inbox,
        lease: Lease::new(lease),
        others: Others::new(lease),
        feeds: Feeds::default(),
        outbox: Outbox::default(),
        known: HashMap::new(),
        retrying: Vec::new(),
        paused_until: None,
        version: None,
        steering,
        closing: None,
    };
    while writer.closing.is_none() {
        let work = writer.gather(&commands);
        if writer.has_reason_to_commit(&work) {
            writer.commit(work);
        }
    }
    writer.end(commands);
}

struct Writer {
    connection: Connection,
    clock: MachineClock,
    access: Access,
    /// When the clock was last stored.
    clock_stored: Option<Instant>,
    disk: Disk,
    place: Place,
    /// The file that was opened.
    opened: Option<Identity>,
    namespace: String,
    inbox: Inbox,
    lease: Lease,
    others: Others,
    feeds: Feeds,
    outbox: Outbox,
    known: HashMap<String, i64>,
    /// Settlements to retry after a failure.
    retrying: Vec<Settling>,
    paused_until: Option<Instant>,
    /// The last `data_version`, which counts commits of other connections.
    version: Option<i64>,
    steering: Box<dyn Steering>,
    /// The callers that wait for the close, once it was requested.
    closing: Option<Vec<oneshot::Sender<()>>>,
}

/// One operation of a transaction.
enum Work {
    Call(Box<dyn Call>),
    Settle(Settling),
}

impl Work {
    fn need(&self) -> Need {
        match self {
            Self::Call(call) => call.need(),
            Self::Settle(_) => Need::Change,
        }
    }

    /// Whether a caller waits for what it changes.
    fn has_caller(&self) -> bool {
        match self {
            Self::Call(call) => call.need() > Need::Look,
            Self::Settle(settling) => settling.answer.is_some(),
        }
    }
}

impl Writer {
    /// Waits for a command and collects all that are queued.
    fn gather(&mut self, commands: &Receiver<Command>) -> Vec<Work> {
        let first = match self.idle_time() {
            None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(idle_time) => commands.recv_timeout(idle_time),
        };
        let mut work = Vec::new();
        match first {
            Ok(first) => self.accept(first, &mut work),
            Err(RecvTimeoutError::Timeout) => return work,
            // Unreachable: the writer holds a sender itself.
            Err(RecvTimeoutError::Disconnected) => self.closing = Some(Vec::new()),
        }
        while self.closing.is_none() && work.len() < MAX_COMMANDS {
            match commands.try_recv() {
                Ok(command) => self.accept(command, &mut work),
                Err(_) => break,
            }
        }
        work
    }

    /// Handles a command at once if it needs no transaction, else queues it.
    fn accept(&mut self, command: Command, work: &mut Vec<Work>) {
        match command {
            Command::Call(call) => work.push(Work::Call(call)),
            Command::Settle(settling) => work.push(Work::Settle(settling)),
            Command::Change(change) => {
                change(&mut self.feeds);
                if !self.feeds.all.is_empty() {
                    self.inbox.watch_suspensions(self.lease.length());
                }
            }
            Command::Close(done) => self.closing = Some(done.into_iter().collect()),
        }
    }

    /// Runs the work in a transaction, delivers claimed jobs, and answers callers.
    fn commit(&mut self, mut work: Vec<Work>) {
        work.splice(..0, self.retrying.drain(..).map(Work::Settle));
        let mut work = self.admit(work);
        let lease = self.lease.clone();
        let in_flight: Vec<_> = self.feeds.all.iter().map(|feed| feed.in_flight).collect();

        match self.transaction(&mut work) {
            Ok(looks) => {
                self.paused_until = None;
                let owner = self.lease.owner();
                self.inbox.set_owner(owner);
                self.feeds.changed = false;
                self.steering.ended(true);
                self.steering.tell(&mut self.feeds);
                for work in work {
                    match work {
                        Work::Call(call) => call.answer(None),
                        Work::Settle(settling) => settling.answer(),
                    }
                }
                for (feed, look) in self.feeds.all.iter_mut().zip(looks) {
                    let (Some(look), Some(owner)) = (look, owner) else {
                        continue;
                    };
                    feed.next_due = look.next_due;
                    for job in look.claimed {
                        deliver(feed, &self.inbox, owner, job);
                    }
                }
            }
            Err(failure) => {
                self.lease = lease;
                self.known.clear();
                self.outbox.forget();
                self.steering.ended(false);
                for (feed, in_flight) in self.feeds.all.iter_mut().zip(in_flight) {
                    feed.in_flight = in_flight;
                }
                self.give_up(work, &failure);
            }
        }
    }

    /// Prepares the file for the work, and answers the calls for which it is not fit.
    fn admit(&mut self, work: Vec<Work>) -> Vec<Work> {
        if self.access.is_complete() {
            return work;
        }
        let mut admitted = Vec::with_capacity(work.len());
        for work in work {
            let file = (&mut self.connection, &mut self.clock);
            match (self.access.prepare(file, work.need()), work) {
                (Err(failure), Work::Call(call)) => call.answer(Some(&failure)),
                (_, work) => admitted.push(work),
            }
        }
        admitted
    }

    /// Answers all callers with a failure.
    fn give_up(&mut self, work: Vec<Work>, failure: &Failure) {
        let error = failure.error();
        tracing::warn!(error = &error as &dyn std::error::Error, "transaction failed");
        self.paused_until = Some(Instant::now() + PAUSE);
        self.others.forget();
        for work in work {
            match work {
                Work::Call(call) => call.answer(Some(failure)),
                Work::Settle(settling) => self.retrying.push(settling.again(failure)),
            }
        }
        if failure.is_final() {
            // A retry cannot succeed.
            self.retrying.clear();
            self.lease.forget();
            self.steering.clear();
            self.feeds.changed = true;
            for feed in self.feeds.all.drain(..) {
                feed.fail(failure.error());
            }
        }
    }

    /// Runs the work, within a transaction that writes, and claims jobs for the consumers.
    fn within(&mut self, work: &mut [Work]) -> rusqlite::Result<Vec<Option<Look>>> {
        if self.clock_stored.is_none_or(|clock_stored| clock_stored.elapsed() >= CLOCK_INTERVAL) {
            self.clock.keep(&self.connection, self.access.version())?;
            self.clock_stored = Some(Instant::now());
        }
        let before = self.lease.owner();
        let mut version = None;
        if before.is_some() || self.needs_lease() {
            let version = *version.insert(data_version(&self.connection)?);
            let owner = self.lease.hold(&self.connection, version)?;
            self.others.look(&self.connection, Some(owner), Instant::now())?;
            for dead in self.others.take_dead() {
                lease::take_over(&self.connection, dead)?;
            }
            if before != Some(owner) {
                self.feeds.all.iter_mut().for_each(|feed| feed.in_flight = 0);
                self.feeds.changed = true;
            }
        }
        // The deletion of a queue must see its consumers.
        self.list()?;
        self.run(work, version)?;
        if self.closing.is_some() {
            self.lease.release(&self.connection)?;
            return Ok(Vec::new());
        }
        self.look(version)
    }

    /// Runs the work, within a transaction. Rows of the outbox become jobs, where a `data_version` is
    /// given.
    fn run(&mut self, work: &mut [Work], version: Option<i64>) -> rusqlite::Result<()> {
        let mut store = Store {
            connection: &self.connection,
            clock: &self.clock,
            insert: Prepared::new(push::INSERT),
            delete: Prepared::new(settle::DELETE),
            namespace: &self.namespace,
            version: self.access.version(),
            owner: self.lease.owner(),
            known: &mut self.known,
            has_news: false,
        };
        for work in work {
            match work {
                Work::Call(call) => call.run(&mut store)?,
                Work::Settle(settling) => {
                    settling.run(&mut store)?;
                    let claim = settling.claim;
                    if Some(claim.owner) == self.lease.owner()
                        && let Some(feed) = self.feeds.find(claim.feed)
                    {
                        feed.in_flight = feed.in_flight.saturating_sub(1);
                        feed.started = settling.is_start().then_some(claim.seq);
                    }
                }
            }
        }
        if let Some(version) = version.filter(|_| store.version >= outbox::SINCE) {
            self.outbox.empty(&mut store, version)?;
        }
        if store.has_news {
            self.steering.expect_news();
        }
        Ok(())
    }

    /// Lists consumers and pools for other engines, if this one has a lease.
    fn list(&mut self) -> rusqlite::Result<()> {
        match self.lease.owner() {
            Some(owner) => self.steering.list(&self.connection, owner, &self.feeds),
            None => Ok(()),
        }
    }

    /// Looks at what steers the consumers, in a file of this `data_version`, and claims jobs for
    /// each of them with room.
    fn look(&mut self, version: Option<i64>) -> rusqlite::Result<Vec<Option<Look>>> {
        let (now, owner) = (self.clock.now(), self.lease.owner());
        if let Some(version) = version.filter(|_| self.needs_lease()) {
            let view = View { connection: &self.connection, version, owner, now };
            self.steering.look(&view, &mut self.feeds)?;
        }
        self.list()?;
        if self.feeds.all.is_empty() {
            return Ok(Vec::new());
        }
        let event = events::release(&self.connection, &self.namespace, now)?;
        let look = |feed: &Feed| match (owner, feed.room()) {
            (Some(owner), room @ 1..) => {
                let (queue, name) = (feed.consumer.queue, feed.name);
                let mut look = if feed.solo {
                    claim::claim_solo(&self.connection, (queue, name), owner, feed.started)?
                } else {
                    let lane = (queue, name, feed.lane);
                    claim::claim(&self.connection, lane, owner, room, now)?
                };
                look.next_due = earlier(look.next_due, event);
                Ok(Some(look))
            }
            _ => Ok(None),
        };
        self.feeds.all.iter().map(look).collect()
    }

    /// Ends the engine: all deliveries become stale, and all callers are answered.
    fn end(mut self, commands: Receiver<Command>) {
        self.inbox.set_owner(None);
        self.feeds.all.clear();
        let mut waiting = self.closing.take().unwrap_or_default();
        while let Ok(command) = commands.try_recv() {
            match command {
                Command::Call(call) => call.answer(Some(&Failure::Closed)),
                Command::Settle(Settling { answer: Some(answer), .. }) => {
                    let _ = answer.send(Err(closed()));
                }
                Command::Close(done) => waiting.extend(done),
                Command::Settle(_) | Command::Change(_) => {}
            }
        }
        // Nothing can be sent from here on, so that later calls fail at once.
        drop((self, commands));
        for done in waiting {
            let _ = done.send(());
        }
    }
}

/// A number that changes with each commit of another connection.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// The earlier due time of a job and an event.
fn earlier(job: Option<i64>, event: Option<i64>) -> Option<i64> {
    job.into_iter().chain(event).min()
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
