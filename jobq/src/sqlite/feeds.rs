//! The consumers of an engine, as its writer has them, and the joint for what steers them.

use rusqlite::Connection;
use tokio::sync::{mpsc, watch};

use super::lane::Lane;
use crate::engine::{Delivery, Pause, PoolId};
use crate::error::{Error, Result};

/// The most jobs that a feed takes in one transaction, so that other callers do not wait long. More
/// are hardly faster (measured: docs/performance.md).
const MAX_JOBS: usize = 256;

/// The consumers of an engine.
#[derive(Default)]
pub(super) struct Feeds {
    pub(super) all: Vec<Feed>,
    /// How many hold seats or wait for them, or take jobs for another engine.
    pub(super) holders: usize,
    /// Whether consumers or pools have come or gone since the last commit.
    pub(super) changed: bool,
}

/// The writer's side of a consumer.
pub(super) struct Feed {
    pub(super) id: u64,
    /// The name of its queue.
    pub(super) name: &'static str,
    pub(super) lane: Lane,
    /// Its row in the file.
    pub(super) consumer: Consumer,
    /// Whether it takes solo jobs.
    pub(super) solo: bool,
    /// The name of jobs that have none.
    pub(super) only_job: Option<&'static str>,
    /// The job whose start was recorded and that is to be delivered again.
    pub(super) started: Option<i64>,
    pub(super) prefetch: usize,
    /// Deliveries that are not settled.
    pub(super) in_flight: usize,
    /// When the next job of the queue is due, as far as is known; `i64::MIN` if it has to be looked
    /// up.
    pub(super) next_due: Option<i64>,
    /// Whether it takes no jobs, by the pauses that were read last.
    pub(super) is_paused: bool,
    pub(super) deliveries: mpsc::UnboundedSender<Result<Delivery>>,
    pub(super) pauses: watch::Sender<Option<Pause>>,
}

/// A consumer, as the file lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Consumer {
    /// Its name in reports.
    pub(super) name: String,
    pub(super) queue: i64,
    pub(super) pool: Option<PoolId>,
}

/// What steers the consumers: pauses, and the pools with the questions to them.
pub(super) trait Steering: Send {
    /// Whether the engine has pools, which need a lease as consumers do.
    fn has_pools(&self) -> bool;

    /// Reads what is new in the file, and marks the consumers of paused queues.
    fn look(&mut self, view: &View<'_>, feeds: &mut Feeds) -> rusqlite::Result<()>;

    /// Looks again next time, since this engine has changed what steers it.
    fn expect_news(&mut self);

    /// Lists the pools and consumers of this owner in the file, if they have changed.
    fn list(&mut self, connection: &Connection, owner: i64, feeds: &Feeds) -> rusqlite::Result<()>;

    /// Tells the consumers what was read and committed.
    fn tell(&mut self, feeds: &mut Feeds);

    /// The transaction in which it has looked and listed was committed, or rolled back.
    fn ended(&mut self, is_committed: bool);

    /// Forgets all pools, since their file is lost.
    fn clear(&mut self);
}

/// The file at one moment.
pub(super) struct View<'a> {
    pub(super) connection: &'a Connection,
    /// The `data_version`, which counts commits of other connections.
    pub(super) version: i64,
    /// The number of this engine, if it has a lease.
    pub(super) owner: Option<i64>,
    pub(super) now: i64,
}

impl Feeds {
    pub(super) fn start(&mut self, feed: Feed) {
        self.all.push(feed);
        self.changed = true;
    }

    pub(super) fn stop(&mut self, ids: &[u64]) {
        self.all.retain(|feed| !ids.contains(&feed.id));
        self.changed = true;
    }

    pub(super) fn find(&mut self, id: u64) -> Option<&mut Feed> {
        self.all.iter_mut().find(|feed| feed.id == id)
    }
}

impl Feed {
    /// How many jobs it may take in the next transaction.
    pub(super) fn room(&self) -> usize {
        if self.is_paused || self.deliveries.is_closed() {
            return 0;
        }
        self.prefetch.saturating_sub(self.in_flight).min(MAX_JOBS)
    }

    pub(super) fn set_prefetch(&mut self, prefetch: u16) {
        self.prefetch = usize::from(prefetch);
        self.next_due = Some(i64::MIN);
    }

    /// Tells the consumer of the pause of its queue, or of its end.
    pub(super) fn tell(&mut self, pause: Option<&Pause>) {
        let changed = self.pauses.send_if_modified(|known| {
            let differs = known.as_ref() != pause;
            if differs {
                *known = pause.cloned();
            }
            differs
        });
        if changed {
            self.next_due = Some(i64::MIN);
        }
    }

    /// Ends the consumer with an error.
    pub(super) fn fail(self, error: Error) {
        let _ = self.deliveries.send(Err(error));
    }
}
