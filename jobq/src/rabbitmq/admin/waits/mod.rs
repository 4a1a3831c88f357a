//! Whether waiting jobs come out of their tiers and levels: pools send probes through them.
//!
//! A broker may stop passing on what waits, for all queues that a node leads, and tells nobody. So
//! a message takes the way of a job, once a minute for each queue that holds jobs for up to a
//! minute, whichever pool sends it. Pools hear of each probe when it is sent and when it comes back
//! ([`probes`](super::topology::probes)), and the [`ledger`] judges. `control` binds and listens.

mod ledger;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel};
use uuid::Uuid;

use self::ledger::{Change, Ledger};
use crate::engine::{Passage, PoolReport};
use crate::error::Result;
use crate::guard::lock;
use crate::metrics;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::declare::declare_all;
use crate::rabbitmq::topology::ensure::NEW_QUEUE_WAIT;
use crate::rabbitmq::topology::lookup::{Seen, look};
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::Topology;
use crate::rabbitmq::topology::probes::{LEVELS, WaitQueue, comes_back};
use crate::rabbitmq::values::{fits, short};

/// How often probes are looked after.
pub(crate) const ROUND: Duration = Duration::from_secs(5);
/// The most probes of a round: one a second. With more than sixty queues, each is probed less often.
const MOST: usize = 5;

/// The probes of an engine.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    ledger: Mutex<Ledger>,
    refused: AtomicBool,
}

impl Waits {
    /// Probes these queues, and no others.
    pub(crate) fn keep(&self, probed: Vec<WaitQueue>) {
        lock(&self.ledger).keep(probed);
    }

    /// A probe passed an exchange.
    pub(crate) fn hear(&self, names: &Names, exchange: &str, key: &str, id: Uuid, now: Duration) {
        if !comes_back(names, exchange, key) {
            return lock(&self.ledger).sent(key, id, now);
        }
        let change = lock(&self.ledger).came(key, id);
        self.tell(change);
    }

    /// Probes on their way do not count, after the end of a connection and in an alarm.
    pub(crate) fn interrupt(&self) {
        lock(&self.ledger).interrupt();
    }

    /// Judges the probes on their way. Returns the keys of those that are late or stuck now.
    pub(crate) fn judge(&self, now: Duration) -> Vec<String> {
        let changes = lock(&self.ledger).judge(now);
        let keys = changes.iter().map(|change| change.key.clone()).collect();
        self.tell(changes);
        keys
    }

    /// The queues whose probes are due.
    pub(crate) fn due(&self, now: Duration) -> Vec<WaitQueue> {
        lock(&self.ledger).due(now, MOST)
    }

    /// Sends probes of these queues.
    pub(crate) async fn send(
        &self,
        channel: &Channel,
        due: Vec<WaitQueue>,
        now: Duration,
    ) -> Result<()> {
        for WaitQueue { exchange, key, .. } in due {
            let id = Uuid::now_v7();
            lock(&self.ledger).sent(&key, id, now);
            let properties = BasicProperties::default().with_message_id(fits(id.to_string()));
            let options = BasicPublishOptions::default();
            let (exchange, key) = (short(exchange)?, short(key)?);
            // Not confirmed: one that is not taken does not come back.
            let sent = channel.basic_publish(exchange, key, options, b"", properties).await;
            sent.map_err(|error| failure("sending a probe", error))?;
        }
        Ok(())
    }

    /// Records that the broker refused what probes need. True if that was recorded before.
    pub(crate) fn note_refusal(&self) -> bool {
        self.refused.swap(true, Ordering::Relaxed)
    }

    /// Adds to the report of a pool what is known of its queues.
    pub(crate) fn add_to(&self, report: &mut PoolReport, now: Duration) {
        let ledger = lock(&self.ledger);
        (report.levels, report.level_probes) = (ledger.passage(None), ledger.waiting(None, now));
        for queue in &mut report.queues {
            queue.waits = ledger.passage(Some(&queue.queue));
            queue.probes = ledger.waiting(Some(&queue.queue), now);
        }
    }

    fn tell(&self, changes: impl IntoIterator<Item = Change>) {
        for Change { name, queue, passage, .. } in changes {
            match passage {
                Passage::Stuck => tracing::error!(
                    place = name,
                    "queue of waiting jobs is stuck; restart the node that leads it"
                ),
                Passage::Late => tracing::warn!(place = name, "probe of waiting jobs is late"),
                _ => tracing::info!(place = name, "queue of waiting jobs delivers again"),
            }
            let worst = lock(&self.ledger).passage(queue.as_deref()).unwrap_or(Passage::Unknown);
            metrics::comes_through(queue.as_deref(), worst);
        }
    }
}

/// Declares what probes of these queues need, unlike other declarations without exception: a probe
/// whose way back is missing would be unroutable.
///
/// # Errors
///
/// A missing permission; a lost connection.
pub(crate) async fn prepare(
    up: &ConnectionEpoch,
    names: &Names,
    probed: &[WaitQueue],
) -> Result<()> {
    let topology = Topology::of_probes(names, probed);
    let created = is_missing(up, names).await?;
    let is_wanted = |declaration: &&Declaration| created || !declaration.is_place();
    declare_all(up, topology.declarations().iter().filter(is_wanted), || ()).await?;
    if created {
        tokio::time::sleep(NEW_QUEUE_WAIT).await;
    }
    Ok(())
}

/// Whether the queue of probes is missing.
pub(crate) async fn is_missing(up: &ConnectionEpoch, names: &Names) -> Result<bool> {
    let topology = Topology::of_probes(names, &[]);
    Ok(matches!(look(up, &topology.places()).await?, Seen::Missing(_)))
}

/// How many of the probed levels exist, from the lowest. The first missing one ends the channel.
pub(crate) async fn existing_levels(up: &ConnectionEpoch, names: &Names) -> Result<u32> {
    let exchange = |level| Topology::of_level(names, level).into_declarations().next();
    let levels: Vec<Declaration> = (0..LEVELS).filter_map(exchange).collect();
    let seen = look(up, &levels.iter().collect::<Vec<_>>()).await?;
    Ok(match seen {
        Seen::All => LEVELS,
        Seen::Missing(level) | Seen::Forbidden(level) => u32::try_from(level).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use ::metrics::{
        Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;
    use crate::engine::QueueSpec;
    use crate::rabbitmq::topology::probes::wait_queues;
    use crate::rabbitmq::topology::requirements::Wanted;

    /// The gauges that were set, by name and queue.
    #[derive(Default)]
    struct Gauges(Arc<Mutex<BTreeMap<String, f64>>>);

    struct One(Arc<Mutex<BTreeMap<String, f64>>>, String);

    impl GaugeFn for One {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.0.lock().unwrap().insert(self.1.clone(), value);
        }
    }

    impl Recorder for Gauges {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
            let name = key.name().to_owned() + &labels.collect::<String>();
            Gauge::from_arc(Arc::new(One(Arc::clone(&self.0), name)))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn metrics_tell_of_late_and_stuck_probes() {
        let gauges = Gauges::default();
        let found = Arc::clone(&gauges.0);
        let second = Duration::from_secs(1);
        let names = Names::new("jobq");
        let wanted = Wanted::queues(&[QueueSpec::new("mail").waits([second])]);
        let probed = wait_queues(&names, &wanted, 1);
        let waits = Waits::default();
        waits.keep(probed.clone());
        ::metrics::with_local_recorder(&gauges, || {
            let (tier, level) = (&probed[0], &probed[1]);
            let id = Uuid::now_v7();
            waits.hear(&names, &tier.exchange, &tier.key, id, Duration::ZERO);
            waits.hear(&names, &level.exchange, &level.key, id, Duration::ZERO);
            let values = |late: f64, stuck: f64| {
                let of = |queue| {
                    let names =
                        ["late", "stuck"].map(|of| format!("jobq_waits_{of} queue={queue}"));
                    names.into_iter().zip([late, stuck])
                };
                of("@levels").chain(of("mail")).collect::<BTreeMap<_, _>>()
            };
            waits.judge(20 * second);
            assert_eq!(*found.lock().unwrap(), BTreeMap::new());
            waits.judge(60 * second);
            assert_eq!(*found.lock().unwrap(), values(1.0, 0.0));
            waits.judge(300 * second);
            assert_eq!(*found.lock().unwrap(), values(1.0, 1.0));
        });
    }
}
