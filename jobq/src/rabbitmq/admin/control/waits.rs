//! Probes of waiting jobs: the control queue hears them, and the client sends them while it has
//! pools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::message::Delivery;
use uuid::Uuid;

use super::Control;
use super::queue::ControlQueue;
use crate::error::Result;
use crate::rabbitmq::admin::waits::{ROUND, existing_levels, is_missing, prepare};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::errors::is_forbidden;
use crate::rabbitmq::topology::probes::{LEVELS, WaitQueue, heard, wait_queues};
use crate::rabbitmq::topology::requirements::Wanted;

/// How old a connection is before its probes count.
const SETTLED: Duration = Duration::from_secs(10);
/// How long after an error it is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// How often it is looked for levels that other clients declare. Each look takes a connection.
const LOOK: Duration = Duration::from_secs(300);

/// What is known of the broker on one connection.
#[derive(Default)]
struct Prepared {
    /// The keys whose bindings are there.
    keys: BTreeSet<String>,
    channel: Option<Channel>,
    levels: u32,
    /// When it was looked for levels.
    looked: Option<Duration>,
}

impl Control {
    /// Sends and judges probes until the control queue ends.
    pub(super) async fn probe_waits(self: Arc<Self>, own: Arc<ControlQueue>) {
        let closing = self.broker.closing().clone();
        tokio::select! {
            () = closing.cancelled() => {}
            () = own.over.cancelled() => {}
            () = own.up.over.cancelled() => {}
            () = self.probe(&own) => {}
        }
        self.waits.interrupt();
    }

    async fn probe(&self, own: &ControlQueue) {
        let clock = self.broker.clock();
        clock.sleep(SETTLED).await;
        loop {
            let Err(error) = self.rounds(own).await else { return };
            self.waits.interrupt();
            if is_forbidden(&error) {
                if !self.waits.note_refusal() {
                    tracing::warn!(
                        %error,
                        "probes refused; this client cannot detect stuck waiting jobs"
                    );
                }
                return;
            }
            tracing::debug!(%error, "could not send probes; retrying");
            clock.sleep(AGAIN).await;
        }
    }

    async fn rounds(&self, own: &ControlQueue) -> Result<()> {
        let clock = self.broker.clock();
        let mut prepared = Prepared::default();
        loop {
            if self.broker.publishing().is_blocked() {
                self.waits.interrupt();
            } else if !self.pools().is_empty() {
                let now = clock.elapsed();
                self.look_for_levels(&mut prepared, now).await;
                tokio::select! {
                    done = self.round(own, &mut prepared, now) => done?,
                    // What is sent now waits for the end of the alarm.
                    _ = self.broker.publishing().blocked() => self.waits.interrupt(),
                }
            }
            clock.sleep(ROUND).await;
        }
    }

    /// The queues of this client's pools, and the levels.
    fn probed(&self, levels: u32) -> Vec<WaitQueue> {
        let consumed: BTreeSet<_> = self.pools().values().flat_map(|pool| pool.queues()).collect();
        let mut queues = self.known.all().queues;
        queues.retain(|queue, _| consumed.contains(queue));
        wait_queues(self.names(), &Wanted { queues, ..Wanted::shared() }, levels)
    }

    async fn round(
        &self,
        own: &ControlQueue,
        prepared: &mut Prepared,
        now: Duration,
    ) -> Result<()> {
        let (names, up) = (self.names(), &own.up);
        let probed = self.probed(prepared.levels);
        let mut new = probed.clone();
        new.retain(|probed| !prepared.keys.contains(&probed.key));
        if !new.is_empty() {
            prepare(up, names, &new).await?;
            own.bind(heard(names, &new)).await?;
            prepared.keys.extend(new.into_iter().map(|probed| probed.key));
        }
        self.waits.keep(probed);
        for late in self.waits.judge(now) {
            // Its binding may be gone, with a queue that was deleted and declared again.
            prepared.keys.remove(&late);
        }
        let due = self.waits.due(now);
        if due.is_empty() {
            return Ok(());
        }
        if is_missing(up, names).await? {
            // Somebody deleted the queue of probes: they would be unroutable.
            prepared.keys.clear();
            return Ok(());
        }
        let channel = match prepared.channel.take() {
            Some(channel) => channel,
            None => open(up).await?,
        };
        self.waits.send(&channel, due, now).await?;
        prepared.channel = Some(channel);
        Ok(())
    }

    /// Looks for levels that other clients declared.
    async fn look_for_levels(&self, prepared: &mut Prepared, now: Duration) {
        prepared.levels = prepared.levels.max(self.known.level_count().min(LEVELS));
        let is_soon = |looked: Duration| now.saturating_sub(looked) < LOOK;
        if prepared.levels == LEVELS || prepared.looked.is_some_and(is_soon) {
            return;
        }
        prepared.looked = Some(now);
        let looking = async {
            let link = self.broker.open("looking").await?;
            let found = async { existing_levels(&*link.up().await?, self.names()).await }.await;
            link.close().await;
            found
        };
        match self.broker.within("looking for delay levels", looking).await {
            Ok(found) => prepared.levels = found,
            Err(error) => tracing::debug!(%error, "could not look up the delay levels"),
        }
    }

    /// Hears a message, if it is a probe: no message of control is empty.
    pub(super) fn hears(&self, message: &Delivery) -> bool {
        if !message.data.is_empty() {
            return false;
        }
        let id = message.properties.message_id().as_ref();
        if let Some(id) = id.and_then(|id| Uuid::parse_str(id.as_str()).ok()) {
            let (exchange, key) = (message.exchange.as_str(), message.routing_key.as_str());
            self.waits.hear(self.names(), exchange, key, id, self.broker.clock().elapsed());
        }
        true
    }
}
