//! Leaving a node that is partitioned from its cluster.
//!
//! Such a node accepts connections and keeps them, but operations that need a majority of a queue's
//! replicas never complete while the partition lasts: confirms, deliveries, and errors of either.
//! So the node is sent a request that needs a majority and changes nothing. If it does not answer
//! and the URL has other nodes, the next one is used.

use std::time::{Duration, Instant};

use lapin::options::BasicGetOptions;
use lapin::types::ShortString;
use tokio::time::{sleep, timeout};

use super::channel::open;
use super::epoch::Up;
use super::link::{Link, Target};
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
enum ProbeResult {
    Answered,
    /// There is no such queue, or this user may not read it.
    Refused,
    /// The connection or the channel ended.
    Lost,
}

/// Probes the nodes of a link through their orphan queue, if the URL has several.
pub(crate) fn watch(link: &Link, target: &Target, strays: String) {
    if target.address.count() > 1 {
        let limit = target.timeout.max(SHORTEST);
        background::spawn(keep(link.clone(), strays.into(), limit));
    }
}

/// Probes with this queue until the link is closed, and leaves a node that does not answer within
/// the limit. The queue must not hold jobs in use, since a message may be taken and requeued:
/// strays belong to no queue.
async fn keep(link: Link, queue: ShortString, limit: Duration) {
    let mut silence_limit = SilenceLimit::new(limit);
    let mut pause = BETWEEN;
    loop {
        sleep(pause).await;
        pause = BETWEEN;
        let Ok(up) = link.up().await else {
            return;
        };
        let asked = Instant::now();
        let result = tokio::select! {
            result = timeout(silence_limit.now, ask(&up, queue.clone())) => result,
            () = link.lost(up.generation) => continue,
        };
        match result {
            Ok(ProbeResult::Answered) => silence_limit.restore(),
            Ok(ProbeResult::Refused) => pause = REFUSED,
            Ok(ProbeResult::Lost) => {}
            // An alarm: no node of the broker reads for now.
            Err(_) if up.connection.status().blocked() => {}
            Err(_) => {
                let silent = crate::period::format(asked.elapsed());
                tracing::warn!(
                    silent,
                    "the node does not get the agreement of the others of its cluster; it is left \
                     for the next one of the URL"
                );
                silence_limit.double();
                let closing = up.connection.close(200, "no answer".into());
                let _ = timeout(CLOSE_TIMEOUT, closing).await;
            }
        }
    }
}

/// Gets a message from the empty queue, which needs the majority of its replicas. If there is a
/// message, it is requeued when the channel ends.
async fn ask(up: &Up, queue: ShortString) -> ProbeResult {
    let Ok(channel) = open(up).await else {
        return ProbeResult::Lost;
    };
    let _question = up.questions.ask(channel.id());
    let result = match channel.basic_get(queue, BasicGetOptions::default()).await {
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
