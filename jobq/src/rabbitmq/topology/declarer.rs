//! Declaring the requirements of jobs before their first use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

use super::destination::Wait;
use super::ensure::{NEW_QUEUE_WAIT, apply_telling};
use super::memory::Declared;
use super::plan::Topology;
use super::probes::wait_queues;
use super::requirements::Wanted;
use super::spread::spread;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::address::{CHANNELS, FEWEST_CHANNELS};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::errors::{NOT_FOUND, refusal};

/// The pause before a declaration is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// The words for declaring in errors.
pub(crate) const DECLARING: &str = "declaring queues";

/// Declares new requirements.
#[derive(Debug)]
pub(crate) struct Declarer {
    broker: Arc<Broker>,
    known: Arc<Declared>,
    turn: Mutex<()>,
    /// How many declarations were answered.
    answered: AtomicUsize,
}

impl Declarer {
    pub(crate) fn new(broker: Arc<Broker>, known: Arc<Declared>) -> Self {
        Self { broker, known, turn: Mutex::default(), answered: AtomicUsize::new(0) }
    }

    pub(crate) fn known(&self) -> &Arc<Declared> {
        &self.known
    }

    /// Declares these requirements, unless that was done before.
    pub(crate) async fn declare(&self, wanted: Wanted) -> Result<()> {
        self.broker.check_open()?;
        if self.known.covers(&wanted) {
            return Ok(());
        }
        // The time limit includes the wait for concurrent declarations.
        let declared = self.broker.within_each(DECLARING, &self.answered, async {
            let turn = self.turn.lock().await;
            if self.known.covers(&wanted) {
                return Ok(None);
            }
            self.known.missing_queues.clear();
            let wanted = self.known.completed(wanted);
            self.check_channels(&wanted).await?;
            let topology = self.known.topology(&wanted);
            let created = self.apply_surely(&topology).await?;
            let created = self.add_probes(&wanted).await? || created;
            Ok(Some((turn, wanted, created)))
        });
        let Some((_turn, wanted, created)) = declared.await? else {
            return Ok(());
        };
        if created {
            sleep(NEW_QUEUE_WAIT).await;
        }
        self.known.add(wanted);
        Ok(())
    }

    /// Declares what probes of these queues need. Jobs need none of it, so a refusal does no harm.
    async fn add_probes(&self, wanted: &Wanted) -> Result<bool> {
        let names = self.known.names();
        let probed = wait_queues(names, wanted, wanted.levels);
        let topology = Topology::of_probes(names, &probed);
        match self.apply_surely(&topology).await {
            Err(error) if error.is_connection() || error.is_timeout() => Err(error),
            Err(error) => {
                tracing::debug!(%error, "could not declare the topology of probes");
                Ok(false)
            }
            created => created,
        }
    }

    /// Declares a topology that somebody else has made. True if some of it was missing.
    pub(crate) async fn declare_as_is(&self, topology: &Topology) -> Result<bool> {
        let declaring = async {
            let _turn = self.turn.lock().await;
            self.known.missing_queues.clear();
            self.apply_surely(topology).await
        };
        let doing = "declaring a topology";
        let created = self.broker.within_each(doing, &self.answered, declaring).await?;
        if created {
            sleep(NEW_QUEUE_WAIT).await;
        }
        Ok(created)
    }

    /// Declares the levels that this wait needs.
    pub(crate) async fn prepare(&self, wait: &Wait) -> Result<()> {
        match wait.levels() {
            0 => Ok(()),
            levels => self.declare(Wanted::levels(levels)).await,
        }
    }

    /// Blocks other declarations until the guard is dropped.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// An error if a connection has too few channels for the queues that pools consume: otherwise
    /// consumers would take turns at losing theirs.
    async fn check_channels(&self, wanted: &Wanted) -> Result<()> {
        let mut all = self.known.all();
        all.add(wanted.clone());
        // Pools alone declare a queue for solo runs.
        let priorities = all.priorities.intersection(&all.solo).count();
        let needed = usize::from(FEWEST_CHANNELS) + 2 * all.solo.len() + 4 * priorities;
        let allowed = self.broker.up().await?.connection.configuration().channel_max();
        if needed <= usize::from(allowed) {
            return Ok(());
        }
        let text = format!(
            "a connection has at most {allowed} channels, but this client needs {needed}; \
             {CHANNELS}: raise `channel_max` in the URL or in rabbitmq.conf, or divide the queues \
             among several clients"
        );
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// [`apply_telling`], repeated on the next connection if one is lost, and for a while if a queue
    /// is down or gone: RabbitMQ 4.3 says so now and then of a queue that another client declares at
    /// the same time (measured).
    async fn apply_surely(&self, topology: &Topology) -> Result<bool> {
        // Shorter than the time limit, so that this error is told and not the time.
        let (began, patience) = (Instant::now(), self.broker.timeout() / 2);
        // Declarations that are answered once more do not count.
        let (mut most, mut spread_any) = (0, false);
        loop {
            let up = self.broker.up().await?;
            let mut now = 0;
            let answered = || {
                self.answered.fetch_add(1, Ordering::Relaxed);
            };
            spread_any |= spread(&self.broker, &up, topology, &answered).await;
            let tell = || {
                now += 1;
                if now > most {
                    most = now;
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
            };
            match apply_telling(&up, topology, tell).await {
                Err(error)
                    if error.is_connection() || is_down(&error) && began.elapsed() < patience =>
                {
                    tracing::warn!(%error, "declaration failed; retrying");
                    // If only the channel ended, the connection is still up.
                    let _ = timeout(PAUSE, self.broker.publishing().lost(up.number)).await;
                }
                done => return done.map(|created| created || spread_any),
            }
        }
    }
}

/// Whether the broker said that a queue or exchange is down or gone.
fn is_down(error: &Error) -> bool {
    refusal(error) == Some(NOT_FOUND)
}
