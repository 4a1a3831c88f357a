//! Leaving a node that is cut off from the others of its cluster.
//!
//! Such a node takes connections and keeps them, but nothing comes of what most of the copies
//! of a queue must agree to: no confirm, no delivery, and no end of either, for as long as
//! the cut lasts. So the node is asked for something that takes this agreement and changes
//! nothing, and where the URL names others, one that does not answer is left for the next.

use std::time::{Duration, Instant};

use lapin::options::BasicGetOptions;
use lapin::types::ShortString;
use tokio::time::{sleep, timeout};

use super::channel::open;
use super::epoch::Up;
use super::link::{Link, Target};
use crate::background;
use crate::rabbitmq::errors::{ACCESS_REFUSED, NOT_FOUND, code};

/// How often a node is asked.
const BETWEEN: Duration = Duration::from_secs(10);
/// How often one that refuses is: each refusal costs a channel number.
const REFUSED: Duration = Duration::from_secs(300);
/// A node that has not answered in less is not silent, however short a client's timeout is.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest that a node may stay silent, after others were left in vain.
const LONGEST: Duration = Duration::from_secs(600);
/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long a node may stay silent. Where the next one is no better, it is not the node, and
/// each change costs what is in hand: so from one to the next it may take twice as long.
#[derive(Debug, PartialEq, Eq)]
struct Patience {
    first: Duration,
    now: Duration,
}

impl Patience {
    fn new(first: Duration) -> Self {
        Self { first, now: first }
    }

    /// The node has answered.
    fn restore(&mut self) {
        self.now = self.first;
    }

    /// The node was left.
    fn lose(&mut self) {
        self.now = (self.now * 2).min(LONGEST.max(self.first));
    }
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pulse {
    Beats,
    /// There is no such queue, or this user may not ask.
    Refused,
    /// The connection or the channel ended.
    Lost,
}

/// Watches the nodes of a link by their queue of strays, if there is another one to go to.
pub(crate) fn watch(link: &Link, target: &Target, strays: String) {
    if target.address.count() > 1 {
        let limit = target.timeout.max(SHORTEST);
        background::spawn(keep(link.clone(), strays.into(), limit));
    }
}

/// Asks for this queue until the link is closed, and leaves a node that does not answer for
/// so long. What is in the queue must not be a job, since it may be taken and given back:
/// the strays are no longer anybody's.
async fn keep(link: Link, queue: ShortString, limit: Duration) {
    let mut patience = Patience::new(limit);
    let mut pause = BETWEEN;
    loop {
        sleep(pause).await;
        pause = BETWEEN;
        let Ok(up) = link.up().await else {
            return;
        };
        let asked = Instant::now();
        let pulse = tokio::select! {
            pulse = timeout(patience.now, ask(&up, queue.clone())) => pulse,
            () = link.lost(up.generation) => continue,
        };
        match pulse {
            Ok(Pulse::Beats) => patience.restore(),
            Ok(Pulse::Refused) => pause = REFUSED,
            Ok(Pulse::Lost) => {}
            // An alarm: the broker reads nothing for now, at any of its nodes.
            Err(_) if up.connection.status().blocked() => {}
            Err(_) => {
                let silent = crate::period::format(asked.elapsed());
                tracing::warn!(
                    silent,
                    "the node does not get the agreement of the others of its cluster; it is left \
                     for the next one of the URL"
                );
                patience.lose();
                let goodbye = up.connection.close(200, "no answer".into());
                let _ = timeout(FAREWELL, goodbye).await;
            }
        }
    }
}

/// Takes a message that is not there: the copies of the queue agree on who has what. If one
/// is there, it goes back with the end of the channel.
async fn ask(up: &Up, queue: ShortString) -> Pulse {
    let Ok(channel) = open(up).await else {
        return Pulse::Lost;
    };
    let _question = up.questions.ask(channel.id());
    let pulse = match channel.basic_get(queue, BasicGetOptions::default()).await {
        Ok(_) => Pulse::Beats,
        Err(error) if matches!(code(&error), Some(NOT_FOUND | ACCESS_REFUSED)) => Pulse::Refused,
        Err(_) => Pulse::Lost,
    };
    let _ = channel.close(200, "asked".into()).await;
    pulse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_that_is_left_in_vain_makes_it_twice_as_patient() {
        let seconds = Duration::from_secs;
        for (first, expected) in [(30, [30, 60, 120, 240, 480, 600, 600]), (900, [900; 7])] {
            let mut patience = Patience::new(seconds(first));
            for expected in expected {
                assert_eq!(patience.now, seconds(expected));
                patience.lose();
            }
            patience.restore();
            assert_eq!(patience, Patience::new(seconds(first)));
        }
    }
}
