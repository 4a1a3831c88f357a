//! The writer without commands: its looks into the file, and its reasons to commit.

use std::time::{Duration, Instant};

use super::{Feed, View, Work, Writer, claim, columns, data_version, earlier, events, outbox};

/// How often an idle engine checks whether another process has changed the file: one read of shared
/// memory.
const POLL: Duration = Duration::from_millis(50);

impl Writer {
    /// The time until there is work without a command.
    pub(super) fn idle_time(&self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(end) = self.paused_until.filter(|end| *end > now) {
            return Some(end - now);
        }
        let mut idle_time = self.lease.renew_at().map(|at| at.saturating_duration_since(now));
        let mut at_most = |wait: Duration| {
            idle_time = Some(idle_time.map_or(wait, |idle_time| idle_time.min(wait)));
        };
        if !self.retrying.is_empty() {
            at_most(Duration::ZERO);
        }
        if self.needs_lease() {
            // Needed without other processes too: the clock may be set.
            at_most(POLL);
            if let Some(due) = self.outbox.next() {
                at_most(columns::to_wait(due.saturating_sub(self.clock.now())));
            }
        }
        for feed in self.feeds.all.iter().filter(|feed| feed.room() > 0) {
            if let Some(due) = feed.next_due {
                at_most(columns::to_wait(due.saturating_sub(self.clock.now())));
            }
        }
        idle_time
    }

    pub(super) fn has_reason_to_commit(&mut self, work: &[Work]) -> bool {
        if !work.is_empty() || self.closing.is_some() {
            return true;
        }
        let now = Instant::now();
        if self.paused_until.is_some_and(|end| end > now) {
            return false;
        }
        self.paused_until = None;
        if self.needs_lease() && self.look_around().is_err() {
            // The transaction reports the error.
            return true;
        }
        // An idle consumer needs a lease too: it watches the other owners.
        let lease_is_due = match self.lease.renew_at() {
            Some(at) => at <= now,
            None => self.needs_lease(),
        };
        lease_is_due
            || (self.feeds.changed && self.takes_jobs())
            || !self.retrying.is_empty()
            || self.sees_due_jobs()
            || self.sees_due_rows()
            || self.sees_dead_owners(now)
    }

    /// Whether it has consumers, seats, departing jobs or pools, and with them a lease.
    pub(super) fn needs_lease(&self) -> bool {
        !self.feeds.all.is_empty() || self.feeds.holders > 0 || self.steering.has_pools()
    }

    /// Whether it has a lease or needs one.
    pub(super) fn takes_jobs(&self) -> bool {
        self.needs_lease() || self.lease.owner().is_some()
    }

    /// Looks at what steers the consumers, by reading only.
    fn look_around(&mut self) -> rusqlite::Result<()> {
        let (connection, now) = (&self.connection, self.clock.now());
        let version = data_version(connection)?;
        let view = View { connection, version, owner: self.lease.owner(), now };
        self.steering.look(&view, &mut self.feeds)?;
        self.steering.tell(&mut self.feeds);
        Ok(())
    }

    /// Whether another owner is dead, found by reading only.
    fn sees_dead_owners(&mut self, now: Instant) -> bool {
        // A read error is reported by the transaction.
        self.needs_lease()
            && self.others.look(&self.connection, self.lease.owner(), now).unwrap_or(true)
    }

    /// Whether a row of the outbox could become a job, found by reading only.
    fn sees_due_rows(&mut self) -> bool {
        if !self.needs_lease() || self.access.version() < outbox::SINCE {
            return false;
        }
        let (connection, now) = (&self.connection, self.clock.now());
        let is_due = data_version(connection).and_then(|version| {
            let view = View { connection, version, owner: self.lease.owner(), now };
            self.outbox.is_due(&view, &self.namespace)
        });
        // A read error is reported by the transaction.
        is_due.unwrap_or(true)
    }

    /// Whether a consumer could get a job, found by reading only: an unneeded write lock would
    /// block other processes.
    fn sees_due_jobs(&mut self) -> bool {
        let now = self.clock.now();
        let has_room = |feed: &&mut Feed| feed.room() > 0;
        let mut with_room = self.feeds.all.iter_mut().filter(has_room).peekable();
        if with_room.peek().is_none() {
            return false;
        }
        let version = data_version(&self.connection).ok();
        let changed = version.is_none() || version != self.version;
        self.version = version;
        let mut sees = false;
        let event = || events::next_due(&self.connection, &self.namespace);
        for feed in with_room {
            if changed {
                let first =
                    claim::next_due(&self.connection, (feed.consumer.queue, feed.lane), feed.solo)
                        .and_then(|job| Ok(earlier(job, event()?)));
                // A read error is reported by the transaction.
                feed.next_due = first.unwrap_or(Some(i64::MIN));
            }
            sees |= feed.next_due.is_some_and(|due| due <= now);
        }
        sees
    }
}
