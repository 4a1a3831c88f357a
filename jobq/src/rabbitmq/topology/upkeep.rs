//! Upkeep of the topology: the broker does not report that an exchange, a queue or a binding was
//! deleted, so each pool checks regularly and declares missing parts again.
//!
//! Without its exchange a retry never comes, and nothing else reports that. A message that is
//! unroutable because a queue or a binding is gone reaches the orphan queue, and the missing part
//! is declared again at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::declare::declare_all;
use super::declarer::Declarer;
use super::ensure::{NEW_QUEUE_WAIT, apply_again};
use super::lookup::{Seen, look};
use super::rotation::Rotation;
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::SupervisedConnection;
use crate::rabbitmq::errors::is_forbidden;
use crate::repeated::{Line, RepeatedBy};

/// The shortest and the longest time between two checks, in milliseconds.
const BETWEEN: std::ops::RangeInclusive<u64> = 30_000..=50_000;
/// How long after a restore the same queue is not restored again.
const RESTORE_PAUSE: Duration = Duration::from_secs(5);

/// Checks until the engine is closed.
pub(crate) async fn run(broker: Arc<Broker>, declarer: Arc<Declarer>) {
    let mut rotation = Rotation::default();
    loop {
        let pause = Duration::from_millis(fastrand::u64(BETWEEN));
        let look = async {
            sleep(pause).await;
            // A broker that reads nothing answers nothing.
            if !broker.publishing().is_blocked() {
                look_and_declare(&broker, &declarer, &mut rotation).await;
            }
        };
        if broker.closing().run_until_cancelled(look).await.is_none() {
            return;
        }
    }
}

async fn look_and_declare(broker: &Broker, declarer: &Declarer, rotation: &mut Rotation) {
    let known = declarer.known();
    let looking = broker.within("looking for what is missing", async {
        // Each check for a part that stays missing costs channel numbers.
        if known.missing().is_none() {
            return keep(declarer, broker.publishing(), rotation).await;
        }
        let own = broker.open("looking").await?;
        let kept = keep(declarer, &own, rotation).await;
        own.close().await;
        kept
    });
    match looking.await {
        Ok(()) => {
            if known.set_missing(None).is_some() {
                tracing::info!("topology complete again on the broker");
            }
        }
        // The error says nothing about the topology.
        Err(error) if error.is_connection() || error.is_timeout() => {
            tracing::debug!(%error, "could not check the topology on the broker");
        }
        Err(error) => {
            let text = error.to_string();
            let before = known.set_missing(Some(error));
            if before.is_none_or(|before| before.to_string() != text) {
                tracing::error!(
                    error = text,
                    "topology incomplete on the broker; jobs may be stuck"
                );
            }
        }
    }
}

/// Checks the next part, and declares everything again if some of it is missing.
async fn keep(
    declarer: &Declarer,
    link: &SupervisedConnection,
    rotation: &mut Rotation,
) -> Result<()> {
    let up = link.up().await?;
    let known = declarer.known();
    let all = known.all();
    if !all.shared {
        return Ok(());
    }
    let part = rotation.next(known.names(), &all);
    let missing = match look(&up, &part.places.iter().collect::<Vec<_>>()).await? {
        Seen::Missing(place) => Some(part.places[place].title()),
        // A part that may not be looked for is assumed to exist.
        Seen::All | Seen::Forbidden(_) => None,
    };
    // No deletion by this client runs meanwhile. One may have ended a moment ago.
    let _turn = declarer.turn().await;
    let topology = known.topology(&known.all());
    if missing.is_some() || known.missing().is_some() {
        let created = up.answer("declaring again", apply_again(&up, &topology)).await?;
        if let (true, Some(missing)) = (created, missing) {
            tracing::warn!(missing, "exchange or queue deleted on the broker; redeclared");
        }
        return Ok(());
    }
    // Bindings cannot be looked for. To declare existing ones changes nothing, and needs no permission
    // to configure.
    let bindings = part.bindings.iter().filter(|b| topology.declarations().contains(b));
    match declare_all(&up, bindings, || ()).await {
        // Users who may not bind rely on those who may. A queue that is not there was deleted a moment
        // ago; the next check finds that.
        Err(error) if !is_forbidden(&error) && !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// What was restored for unroutable messages.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// The last queue, and when.
    last: Option<(String, Instant)>,
    /// The queues that could not be restored.
    failed: RepeatedBy<String>,
}

impl Restored {
    /// Declares the queue of such a message again if this client declared it, so that the message
    /// can be sent to it.
    pub(crate) async fn restore(
        &mut self,
        declarer: &Declarer,
        up: &ConnectionEpoch,
        queue: &str,
        of_levels: bool,
    ) {
        let known = declarer.known();
        let just_now =
            |(name, at): &(String, Instant)| name == queue && at.elapsed() < RESTORE_PAUSE;
        if self.last.as_ref().is_some_and(just_now) {
            return;
        }
        let _turn = declarer.turn().await;
        let Some(mut wanted) = known.part(queue) else {
            return;
        };
        wanted.levels = if of_levels { known.level_count() } else { 0 };
        match apply_again(up, &known.topology(&wanted)).await {
            Ok(true) => {
                tracing::warn!(
                    queue,
                    "part of the queue's topology deleted on the broker; redeclared"
                );
                sleep(NEW_QUEUE_WAIT).await;
            }
            Ok(false) => {}
            Err(error) => {
                if let Some(Line { more }) = self.failed.happens(queue.to_owned(), Instant::now()) {
                    tracing::warn!(queue, %error, more, "could not redeclare the queue's topology");
                }
            }
        }
        self.last = Some((queue.to_owned(), Instant::now()));
    }
}
