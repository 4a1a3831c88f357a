//! The schedules of a pool. Of all pools that work on a queue, one holds its seat and enqueues the jobs
//! that are due; the others wait for the seat.

mod keeper;
#[cfg(feature = "testing")]
mod stepped;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use tokio::time::{Instant, interval_at, sleep, timeout};

use self::keeper::Keeper;
#[cfg(feature = "testing")]
pub(super) use self::stepped::Stepped;
use super::answers::PoolPart;
use super::board::Board;
use super::health::QueueState;
use super::registry::{Registry, Specs};
use super::running::Keepers;
use super::shared::Shared;
use crate::engine::{Engine, Seat, Seats};
use crate::error::{Error, ErrorKind, Result};
use crate::guard;
use crate::repeated::Repeated;
use crate::schedule::deadlines::LATE;
use crate::schedule::spec::Spec;

/// How often a pool looks for a seat that it was not told of. A broker logs each look in vain.
const LOOKING: Duration = Duration::from_secs(3_600);
/// How often a pool names its schedules to the holder.
const NAMING: Duration = Duration::from_secs(600);
/// How long a pool waits before it names its schedules again where that failed.
const NAMING_AGAIN: Duration = Duration::from_secs(15);
/// How long a pool waits for a seat before it names its schedules to the holder.
const FIRST_NAMING: Duration = Duration::from_secs(1);
/// How long a pool waits after it lost a seat, or could not take it.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a holder looks for schedules to forget, and at its clock.
const UPKEEP: Duration = Duration::from_secs(60);

/// The schedules of a pool before it runs.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) board: Arc<Board>,
    /// `None` if the pool enqueues no jobs of schedules.
    specs: Option<Specs>,
}

impl Planned {
    /// # Errors
    ///
    /// Schedules that are not valid, or that the engine does not support.
    pub(super) fn new(registry: &Registry, engine: &dyn Engine) -> Result<Self> {
        let specs = registry.schedules()?;
        let has_seats = engine.seats().is_some();
        if let Some(job) = specs.values().flatten().next().filter(|_| !has_seats) {
            let text = format!(
                "job `{}` is periodic, but this engine has no schedules; use another engine, or start \
                 the pool with `.schedules(false)`",
                job.name
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let enabled = has_seats && registry.periodics.enabled;
        Ok(Self { board: Arc::default(), specs: enabled.then_some(specs) })
    }

    /// The tasks that enqueue the jobs.
    pub(super) fn into_keepers(self, pool: &Arc<Shared>, parts: &[PoolPart]) -> Keepers {
        let Some(mut specs) = self.specs else { return Keepers::new() };
        let keeper = |part: &PoolPart| {
            let schedules = Schedules {
                pool: Arc::clone(pool),
                board: Arc::clone(&self.board),
                part: part.clone(),
                own: specs.remove(part.queue.name).unwrap_or_default(),
                began: pool.clock().now(),
            };
            Box::pin(schedules.keep()) as Pin<Box<_>>
        };
        parts.iter().map(keeper).collect()
    }
}

/// The schedules of one queue of a pool.
#[derive(Debug)]
struct Schedules {
    pool: Arc<Shared>,
    board: Arc<Board>,
    part: PoolPart,
    /// Those in the code of the pool.
    own: Vec<Spec>,
    /// When the pool began.
    began: SystemTime,
}

impl Schedules {
    /// Holds the seat of the queue whenever no other pool does, until the pool ends.
    async fn keep(self) {
        let mut failed = Repeated::default();
        loop {
            let held = AssertUnwindSafe(self.hold_once()).catch_unwind().await;
            let held = held
                .unwrap_or_else(|panic| Err(Error::new(ErrorKind::Refused, guard::text(panic))));
            let Err(error) = held else { return };
            if error.is_closed() {
                return;
            }
            if let Some(line) = failed.happens(Instant::now()) {
                let (queue, more) = (self.queue(), line.more);
                tracing::warn!(queue, %error, more, "jobs of the queue's schedules cannot be enqueued; retrying");
            }
            let end = &self.pool.enough;
            if end.run_until_cancelled(sleep(PAUSE)).await.is_none() {
                return;
            }
        }
    }

    /// Waits for the seat, and holds it until the pool ends or the seat is lost.
    async fn hold_once(&self) -> Result<()> {
        let client = &self.pool.resources.client;
        let Some(seats) = client.engine().seats() else { return Ok(()) };
        let taking = async {
            self.wait_for_seat(seats).await?;
            self.take(seats).await
        };
        let Some(seat) = self.pool.enough.run_until_cancelled(taking).await else { return Ok(()) };
        let mut keeper = Keeper::open(client.clone(), self.queue(), seat?)?;
        keeper.add_own(&self.own, self.began).await?;
        // Before the first jobs: those of a removed schedule are not wanted any more.
        keeper.merge_waiting().await?;
        let _shown = self.board.show(self.queue(), keeper.book());
        let held = self.hold(&mut keeper).await;
        if held.is_ok() {
            // The next holder may begin at once.
            keeper.leave().await;
        }
        held
    }

    /// Returns when the queue has a seat, or the pool has schedules for it.
    async fn wait_for_seat(&self, seats: &dyn Seats) -> Result<()> {
        while self.own.is_empty() && !seats.exists(self.queue()).await? {
            // Whether it is told or not.
            let _ = timeout(LOOKING, self.board.told(self.queue())).await;
        }
        Ok(())
    }

    /// Waits for the seat. Its holder knows the schedules of this pool meanwhile.
    async fn take(&self, seats: &dyn Seats) -> Result<Box<dyn Seat>> {
        // Beside each other: one may wait for what the other has begun.
        tokio::select! {
            biased;
            taken = seats.take(self.queue()) => taken,
            never = self.name_to_holder(seats) => match never {},
        }
    }

    /// Names the schedules in the code of this pool to the holder, now and then.
    async fn name_to_holder(&self, seats: &dyn Seats) -> Infallible {
        let mut wait = FIRST_NAMING;
        loop {
            sleep(wait).await;
            wait = NAMING;
            for spec in &self.own {
                let change = keeper::naming(&self.pool.resources.client, spec, self.began);
                if let Err(error) = seats.change(self.queue(), change).await {
                    let queue = self.queue();
                    tracing::debug!(
                        queue, %error,
                        "could not tell the pool that enqueues which schedules this pool has"
                    );
                    wait = NAMING_AGAIN;
                }
            }
        }
    }

    /// Enqueues the jobs that are due, and merges changes.
    async fn hold(&self, keeper: &mut Keeper) -> Result<()> {
        let clock = self.pool.clock();
        let mut was_paused = false;
        // Not begun anew by each job that is due.
        let mut upkeep = interval_at(Instant::now() + UPKEEP, UPKEEP);
        loop {
            // Made before the state is read, so that no change is missed.
            let changed = self.part.changed();
            let is_paused = match self.part.state() {
                QueueState::Paused { .. } => true,
                QueueState::Consuming => false,
                // A consumer that rests or is lost tells nothing of a pause.
                _ => was_paused,
            };
            if !is_paused {
                // Times at which the queue was paused are missed.
                let late = if was_paused { Duration::ZERO } else { LATE };
                keeper.tick(late).await?;
            }
            was_paused = is_paused;
            let next = keeper.next().filter(|_| !is_paused);
            let due = async {
                match next {
                    Some(next) => clock.reached(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.pool.enough.cancelled() => return Ok(()),
                change = keeper.next_change() => keeper.merge(change?).await?,
                () = due => {}
                () = changed => {}
                _ = upkeep.tick() => keeper.upkeep().await?,
            }
        }
    }

    fn queue(&self) -> &'static str {
        self.part.queue.name
    }
}
