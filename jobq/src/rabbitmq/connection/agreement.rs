//! Whether the node of a client has the agreement of its cluster.
//!
//! Without a majority, RabbitMQ 4.0 answers passive declarations at once, with 0 for each queue whose
//! leader is down, and nothing in the answer says so.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::broker::Broker;
use super::probe::{ProbeResult, ProbeRoute, ask};
use crate::error::Result;

/// How long the confirmation may take.
const LIMIT: Duration = Duration::from_millis(1500);
/// How long an answer is used: whoever counts the jobs of many queues asks once.
const FRESH: Duration = Duration::from_secs(1);
/// How long a refusal is: each one costs a channel number.
const REFUSED: Duration = Duration::from_secs(300);

/// The last answer of the node.
#[derive(Debug)]
pub(crate) struct Agreement {
    route: ProbeRoute,
    /// It, and until when it is used.
    last: Mutex<Option<(bool, Instant)>>,
}

impl Agreement {
    pub(crate) fn new(route: ProbeRoute) -> Self {
        Self { route, last: Mutex::default() }
    }

    /// Whether the node confirms a message for a quorum queue in time, as none does without a
    /// majority. Where there is no such queue, or this user may not publish to it, nobody can tell,
    /// and it counts as confirmed. A URL with one name is asked as well: a cluster may be behind it.
    pub(crate) async fn is_given(&self, broker: &Broker) -> Result<bool> {
        let mut last = self.last.lock().await;
        if let Some((is_given, _)) = last.filter(|(_, until)| Instant::now() < *until) {
            return Ok(is_given);
        }
        let up = broker.up().await?;
        let (is_given, lasts) = match timeout(LIMIT, ask(&up, &self.route)).await {
            Ok(ProbeResult::Answered | ProbeResult::MissingQueues) => (true, FRESH),
            Ok(ProbeResult::Refused) => (true, REFUSED),
            Ok(ProbeResult::Lost) | Err(_) => (false, FRESH),
        };
        *last = Some((is_given, Instant::now() + lasts));
        Ok(is_given)
    }
}
