//! Leaving a node that is partitioned from its cluster.
//!
//! Such a node accepts connections and keeps them, but operations that need a majority of a queue's
//! replicas never complete while the partition lasts: confirms, deliveries, and errors of either.
//! So the node is sent a message that needs a majority, on a channel or a connection of its own. If
//! it is not confirmed and the URL has other nodes, the next one is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Confirmation};
use tokio::time::{sleep, timeout};

use super::channel::open;
use super::epoch::ConnectionEpoch;
use super::supervised::{Connector, SupervisedConnection, Target};
use crate::background;
use crate::rabbitmq::errors::{ACCESS_REFUSED, NOT_FOUND, code};

/// How often a node is probed.
const BETWEEN: Duration = Duration::from_secs(10);
/// How often after a refusal: each one costs a channel number.
const REFUSED: Duration = Duration::from_secs(300);
/// The shortest silence that counts, however short a client's timeout is.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest limit, after other nodes did not answer either.
const LONGEST: Duration = Duration::from_secs(600);
/// The pause after a message that was not taken.
const AGAIN: Duration = Duration::from_secs(1);
/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a node may stay silent. If the next one is no better, the node is not the cause, and
/// each change costs the jobs in flight: so the limit doubles with each change.
#[derive(Debug, PartialEq, Eq)]
struct SilenceLimit {
    first: Duration,
    now: Duration,
}

impl SilenceLimit {
    fn new(first: Duration) -> Self {
        Self { first, now: first }
    }

    /// Resets the limit after an answer.
    fn restore(&mut self) {
        self.now = self.first;
    }

    /// Doubles the limit after a change of node.
    fn double(&mut self) {
        self.now = (self.now * 2).min(LONGEST.max(self.first));
    }
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeResult {
    Answered,
    /// The queue of probes does not exist yet.
    MissingQueues,
    /// This user may not publish probes.
    Refused,
    /// The connection or the channel ended.
    Lost,
}

/// The connection that carries the probes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Carrier {
    /// The connection whose node is probed.
    Itself,
    /// Another one to the same node: the broker stops reading from connections that publish when it
    /// is short of memory or disk.
    Another,
}

/// The route of probes, to a queue that holds no jobs. Its exchange has no alternate one.
#[derive(Debug, Clone)]
pub(crate) struct ProbeRoute {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
}

/// Probes the nodes of a link, if the URL has several.
pub(crate) fn watch(
    link: &SupervisedConnection,
    target: &Arc<Target>,
    carrier: Carrier,
    route: ProbeRoute,
) {
    if target.address.count() > 1 {
        background::spawn(keep(link.clone(), Arc::clone(target), carrier, route));
    }
}

/// Probes until the connection is closed, and leaves a node that does not answer within the limit.
async fn keep(
    link: SupervisedConnection,
    target: Arc<Target>,
    carrier: Carrier,
    route: ProbeRoute,
) {
    let mut silence_limit = SilenceLimit::new(target.timeout.max(SHORTEST));
    let mut pause = BETWEEN;
    let mut another = None;
    loop {
        sleep(pause).await;
        pause = BETWEEN;
        let Ok(up) = link.up().await else {
            return close(another).await;
        };
        let on = match carrier {
            Carrier::Itself => Arc::clone(&up),
            Carrier::Another => match beside(&up, &target, &mut another).await {
                Some(on) => on,
                None => continue,
            },
        };
        // An alarm: no node of the broker reads for now.
        let is_blocked = || on.connection.status().blocked();
        if is_blocked() {
            continue;
        }
        let asked = Instant::now();
        let result = tokio::select! {
            result = timeout(silence_limit.now, ask(&on, &route)) => result,
            () = link.lost(up.number) => continue,
        };
        match result {
            Ok(ProbeResult::Answered) => silence_limit.restore(),
            Ok(ProbeResult::Refused) => pause = REFUSED,
            Ok(ProbeResult::MissingQueues | ProbeResult::Lost) => {}
            Err(_) if is_blocked() || !on.connection.status().connected() => {}
            Err(_) => {
                let silent = crate::period::format(asked.elapsed());
                tracing::warn!(silent, "node has no quorum; switching to the next node in the URL");
                silence_limit.double();
                let closing = up.connection.close(200, "no answer".into());
                let _ = timeout(CLOSE_TIMEOUT, closing).await;
            }
        }
    }
}

/// A connection to the node of this one, which is kept as long as it.
async fn beside(
    up: &ConnectionEpoch,
    target: &Arc<Target>,
    another: &mut Option<(u64, Arc<ConnectionEpoch>)>,
) -> Option<Arc<ConnectionEpoch>> {
    let is_current = |(number, on): &&(u64, Arc<ConnectionEpoch>)| {
        // Nobody renews its credentials.
        *number == up.number && on.connection.status().connected() && !on.is_due_for_renewal()
    };
    if let Some((_, on)) = another.as_ref().filter(is_current) {
        return Some(Arc::clone(on));
    }
    close(another.take()).await;
    let mut to_node = Connector::to_node(Arc::clone(target), "jobq (probing)".into(), up.node);
    let established = to_node.connect(Duration::MAX).await.ok()?;
    let on = Arc::new(ConnectionEpoch::new(established, 0));
    *another = Some((up.number, Arc::clone(&on)));
    Some(on)
}

async fn close(another: Option<(u64, Arc<ConnectionEpoch>)>) {
    if let Some((_, on)) = another {
        on.questions.end();
        let _ = timeout(CLOSE_TIMEOUT, on.connection.close(200, "closed".into())).await;
    }
}

/// Publishes a message that needs the majority of the replicas of its queue to be confirmed.
pub(super) async fn ask(up: &ConnectionEpoch, route: &ProbeRoute) -> ProbeResult {
    let Ok(channel) = open(up).await else {
        return ProbeResult::Lost;
    };
    let _question = up.questions.ask(channel.id());
    let publishing = async {
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        loop {
            let ProbeRoute { exchange, key } = route.clone();
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let properties = BasicProperties::default();
            let publish = channel.basic_publish(exchange, key, options, b"", properties).await?;
            match publish.await? {
                // Without a leader.
                Confirmation::Nack(None) => sleep(AGAIN).await,
                confirmed => return Ok(confirmed),
            }
        }
    };
    let result = match publishing.await {
        Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_))) => ProbeResult::MissingQueues,
        Ok(_) => ProbeResult::Answered,
        Err(error) if matches!(code(&error), Some(NOT_FOUND | ACCESS_REFUSED)) => {
            ProbeResult::Refused
        }
        Err(_) => ProbeResult::Lost,
    };
    let _ = channel.close(200, "asked".into()).await;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_node_doubles_the_limit() {
        let seconds = Duration::from_secs;
        for (first, expected) in [(30, [30, 60, 120, 240, 480, 600, 600]), (900, [900; 7])] {
            let mut silence_limit = SilenceLimit::new(seconds(first));
            for expected in expected {
                assert_eq!(silence_limit.now, seconds(expected));
                silence_limit.double();
            }
            silence_limit.restore();
            assert_eq!(silence_limit, SilenceLimit::new(seconds(first)));
        }
    }
}
