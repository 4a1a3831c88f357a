//! The thread that owns the connection: it does what waits in the inbox, all of it in
//! one transaction, and takes jobs for the consumers in the same one.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::claim::{self, Look};
use super::columns;
use super::deliveries::deliver;
use super::disk::Disk;
use super::events;
use super::feed::Feed;
use super::inbox::{Call, Command, Inbox};
use super::lease::{self, Lease};
use super::machine_clock::MachineClock;
use super::others::Others;
use super::place::Identity;
use super::push;
use super::settle::{self, Settling};
use super::store::{Prepared, Store};
use super::{Failure, Place};
use crate::engine::closed;

/// How often an idle engine asks whether another process has changed the file: one
/// read of shared memory.
const POLL: Duration = Duration::from_millis(50);

/// The most commands of one transaction.
const MOST: usize = 4_096;

/// How often the time of the clock is kept.
const KEPT: Duration = Duration::from_secs(1);

/// How long the writer leaves the file alone after a failure, unless somebody asks.
const PAUSE: Duration = Duration::from_secs(1);

/// Does what comes through the inbox until it is told to close.
pub(super) fn run(
    (connection, clock): (Connection, MachineClock),
    place: Place,
    namespace: String,
    lease: Duration,
    inbox: Inbox,
    commands: Receiver<Command>,
) {
    let mut writer = Writer {
        connection,
        clock,
        kept: None,
        disk: Disk::new(),
        opened: place.identity(),
        place,
        namespace,
        inbox,
        lease: Lease::new(lease),
        others: Others::new(lease),
        feeds: Vec::new(),
        known: HashMap::new(),
        carried: Vec::new(),
        paused_until: None,
        version: None,
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
    /// When the clock was kept.
    kept: Option<Instant>,
    disk: Disk,
    place: Place,
    /// The file that was opened.
    opened: Option<Identity>,
    namespace: String,
    inbox: Inbox,
    lease: Lease,
    others: Others,
    feeds: Vec<Feed>,
    known: HashMap<String, i64>,
    /// Settlements that could not be recorded and are tried again.
    carried: Vec<Settling>,
    paused_until: Option<Instant>,
    /// What the file's counter of other connections' commits was.
    version: Option<i64>,
    /// Those who wait for the end, once it has been asked for.
    closing: Option<Vec<oneshot::Sender<()>>>,
}

/// What is done within a transaction.
enum Work {
    Call(Box<dyn Call>),
    Settle(Settling),
}

impl Work {
    fn is_waited_for(&self) -> bool {
        match self {
            Self::Call(_) => true,
            Self::Settle(settling) => settling.answer.is_some(),
        }
    }
}

impl Writer {
    /// Waits for something to do and collects all that is there.
    fn gather(&mut self, commands: &Receiver<Command>) -> Vec<Work> {
        let first = match self.patience() {
            None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(patience) => commands.recv_timeout(patience),
        };
        let mut work = Vec::new();
        match first {
            Ok(first) => self.accept(first, &mut work),
            Err(RecvTimeoutError::Timeout) => return work,
            // Not while this writer holds a sender of its own.
            Err(RecvTimeoutError::Disconnected) => self.closing = Some(Vec::new()),
        }
        while self.closing.is_none() && work.len() < MOST {
            match commands.try_recv() {
                Ok(command) => self.accept(command, &mut work),
                Err(_) => break,
            }
        }
        work
    }

    /// Does at once what needs no transaction, and keeps the rest.
    fn accept(&mut self, command: Command, work: &mut Vec<Work>) {
        match command {
            Command::Call(call) => work.push(Work::Call(call)),
            Command::Settle(settling) => work.push(Work::Settle(settling)),
            Command::Start(feed) => self.feeds.push(feed),
            Command::Prefetch(id, prefetch) => {
                if let Some(feed) = self.feeds.iter_mut().find(|feed| feed.id == id) {
                    feed.prefetch = usize::from(prefetch);
                    feed.next_due = Some(i64::MIN);
                }
            }
            Command::Stop(id, done) => {
                self.feeds.retain(|feed| feed.id != id);
                done.map(|done| done.send(()));
            }
            Command::Close(done) => self.closing = Some(done.into_iter().collect()),
        }
    }

    /// How long there will be nothing to do unless a command comes.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(end) = self.paused_until.filter(|end| *end > now) {
            return Some(end - now);
        }
        let mut patience = self.lease.renew_at().map(|at| at.saturating_duration_since(now));
        let mut at_most = |wait: Duration| {
            patience = Some(patience.map_or(wait, |patience| patience.min(wait)));
        };
        if !self.carried.is_empty() {
            at_most(Duration::ZERO);
        }
        for feed in self.feeds.iter().filter(|feed| feed.room() > 0) {
            // Also without other processes: the clock may be set.
            at_most(POLL);
            if let Some(due) = feed.next_due {
                at_most(columns::to_wait(due.saturating_sub(self.clock.now())));
            }
        }
        patience
    }

    fn has_reason_to_commit(&mut self, work: &[Work]) -> bool {
        if !work.is_empty() || self.closing.is_some() {
            return true;
        }
        let now = Instant::now();
        if self.paused_until.is_some_and(|end| end > now) {
            return false;
        }
        self.paused_until = None;
        // An idle consumer holds a lease too: with it comes the watch over the others.
        let lease_is_due = match self.lease.renew_at() {
            Some(at) => at <= now,
            None => !self.feeds.is_empty(),
        };
        lease_is_due
            || !self.carried.is_empty()
            || self.sees_due_jobs()
            || self.sees_dead_owners(now)
    }

    /// Whether there is an owner to take jobs over from, found out by reading alone, too.
    fn sees_dead_owners(&mut self, now: Instant) -> bool {
        // The transaction reports a file that cannot be read.
        self.feeds.iter().any(|feed| feed.room() > 0)
            && self.others.look(&self.connection, self.lease.owner(), now).unwrap_or(true)
    }

    /// Whether a consumer could get a job, found out by reading alone: taking the file's
    /// one write lock for nothing would hold up other processes.
    fn sees_due_jobs(&mut self) -> bool {
        let now = self.clock.now();
        let mut hungry = self.feeds.iter_mut().filter(|feed| feed.room() > 0).peekable();
        if hungry.peek().is_none() {
            return false;
        }
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut pragma| pragma.query_row([], |row| row.get(0)))
            .ok();
        let changed = version.is_none() || version != self.version;
        self.version = version;
        let mut sees = false;
        let event = || events::next_due(&self.connection, &self.namespace);
        for feed in hungry {
            if changed {
                let first = claim::next_due(&self.connection, feed.queue, feed.solo)
                    .and_then(|job| Ok(earlier(job, event()?)));
                // What cannot be read is for the transaction to report.
                feed.next_due = first.unwrap_or(Some(i64::MIN));
            }
            sees |= feed.next_due.is_some_and(|due| due <= now);
        }
        sees
    }

    /// Does the work, takes jobs, and tells everybody what came of it.
    fn commit(&mut self, new: Vec<Work>) {
        let mut work: Vec<_> = self.carried.drain(..).map(Work::Settle).collect();
        work.extend(new);
        let lease = self.lease.clone();
        let in_hand: Vec<_> = self.feeds.iter().map(|feed| feed.in_hand).collect();

        match self.transaction(&mut work) {
            Ok(looks) => {
                self.paused_until = None;
                let owner = self.lease.owner();
                self.inbox.set_owner(owner);
                for work in work {
                    match work {
                        Work::Call(call) => call.answer(None),
                        Work::Settle(settling) => settling.answer(),
                    }
                }
                for (feed, look) in self.feeds.iter_mut().zip(looks) {
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
                for (feed, in_hand) in self.feeds.iter_mut().zip(in_hand) {
                    feed.in_hand = in_hand;
                }
                self.give_up(work, &failure);
            }
        }
    }

    /// Tells everybody that nothing was done, and why.
    fn give_up(&mut self, work: Vec<Work>, failure: &Failure) {
        let error = failure.error();
        tracing::warn!(error = &error as &dyn std::error::Error, "a transaction failed");
        self.paused_until = Some(Instant::now() + PAUSE);
        for work in work {
            match work {
                Work::Call(call) => call.answer(Some(failure)),
                Work::Settle(settling) => self.carried.push(settling.later(failure)),
            }
        }
        if failure.is_final() {
            // Nothing is left to try, nor to hold.
            self.carried.clear();
            self.lease.forget();
            for feed in self.feeds.drain(..) {
                feed.fail(failure.error());
            }
        }
    }

    /// One transaction: all of it, or nothing.
    fn transaction(&mut self, work: &mut [Work]) -> Result<Vec<Option<Look>>, Failure> {
        self.is_there(false)?;
        let somebody_waits = self.closing.is_some() || work.iter().any(Work::is_waited_for);
        let result = self
            .disk
            .set(&self.connection, somebody_waits)
            .and_then(|()| self.execute("BEGIN IMMEDIATE"))
            .and_then(|()| self.within(work))
            .map_err(|source| Failure::new(&self.place, source))
            .and_then(|looks| match self.execute("COMMIT") {
                // Answered is only what is found where others look for it.
                Ok(()) => self.is_there(true).map(|()| looks),
                Err(source) => Err(Failure::of_commit(&self.place, source)),
            });
        if result.is_err() && !self.connection.is_autocommit() {
            // It can only fail where SQLite has rolled back by itself.
            let _ = self.execute("ROLLBACK");
        }
        result
    }

    /// Whether the file is the one that was opened.
    fn is_there(&self, maybe_done: bool) -> Result<(), Failure> {
        if self.place.identity() == self.opened {
            return Ok(());
        }
        Err(Failure::Gone { place: self.place.clone(), maybe_done })
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn within(&mut self, work: &mut [Work]) -> rusqlite::Result<Vec<Option<Look>>> {
        if self.kept.is_none_or(|kept| kept.elapsed() >= KEPT) {
            self.clock.keep(&self.connection)?;
            self.kept = Some(Instant::now());
        }
        let before = self.lease.owner();
        if before.is_some() || !self.feeds.is_empty() {
            let owner = self.lease.hold(&self.connection)?;
            self.others.look(&self.connection, Some(owner), Instant::now())?;
            for dead in self.others.take_dead() {
                lease::take_over(&self.connection, dead)?;
            }
            if before != Some(owner) {
                self.feeds.iter_mut().for_each(|feed| feed.in_hand = 0);
            }
        }
        let mut store = Store {
            connection: &self.connection,
            clock: self.clock,
            insert: Prepared::new(push::INSERT),
            delete: Prepared::new(settle::DELETE),
            namespace: &self.namespace,
            known: &mut self.known,
        };
        for work in work {
            match work {
                Work::Call(call) => call.run(&mut store)?,
                Work::Settle(settling) => {
                    settling.run(&mut store)?;
                    let claim = settling.claim;
                    if Some(claim.owner) == self.lease.owner()
                        && let Some(feed) = self.feeds.iter_mut().find(|feed| feed.id == claim.feed)
                    {
                        feed.in_hand = feed.in_hand.saturating_sub(1);
                        feed.started = settling.is_start().then_some(claim.seq);
                    }
                }
            }
        }
        if self.closing.is_some() {
            self.lease.give_back(&self.connection)?;
        }
        drop(store);
        self.look()
    }

    /// Takes jobs for each consumer that has room for some.
    fn look(&self) -> rusqlite::Result<Vec<Option<Look>>> {
        if self.feeds.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let event = events::release(&self.connection, &self.namespace, now)?;
        let look = |feed: &Feed| match (self.lease.owner(), feed.room()) {
            (Some(owner), room @ 1..) => {
                let queue = (feed.queue, feed.name);
                let mut look = if feed.solo {
                    claim::claim_solo(&self.connection, queue, owner)?
                } else {
                    claim::claim(&self.connection, queue, owner, room, now)?
                };
                look.next_due = earlier(look.next_due, event);
                Ok(Some(look))
            }
            _ => Ok(None),
        };
        self.feeds.iter().map(look).collect()
    }

    /// Ends the engine: nothing is in hand any more, and all who wait are told.
    fn end(mut self, commands: Receiver<Command>) {
        self.inbox.set_owner(None);
        self.feeds.clear();
        let mut waiting = self.closing.take().unwrap_or_default();
        while let Ok(command) = commands.try_recv() {
            match command {
                Command::Call(call) => call.answer(Some(&Failure::Closed)),
                Command::Settle(Settling { answer: Some(answer), .. }) => {
                    let _ = answer.send(Err(closed()));
                }
                Command::Close(done) => waiting.extend(done),
                Command::Stop(_, done) => drop(done),
                Command::Settle(_) | Command::Start(_) | Command::Prefetch(..) => {}
            }
        }
        // From here on nothing can be sent, so that a call after the end is refused at once.
        drop((self, commands));
        for done in waiting {
            let _ = done.send(());
        }
    }
}

/// When the first of these is due: a job, and an event that may become one.
fn earlier(job: Option<i64>, event: Option<i64>) -> Option<i64> {
    job.into_iter().chain(event).min()
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
