//! Which queues exist. RabbitMQ accepts a job for one that does not, and returns it later as unroutable.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, Priority};
use crate::outbox::no_priorities;

/// How long it counts that a queue exists. One that is deleted meanwhile makes the job unroutable, which
/// is told as for any other client.
const FRESH: Duration = Duration::from_secs(60);
/// How long it counts at first that a queue does not exist, and at last: twice as long each time. On
/// RabbitMQ, each look in vain costs a channel number of the connection, of which there are 2,047.
const MISSING: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(600)];

#[derive(Debug)]
pub(super) struct Queues {
    client: Client,
    seen: BTreeMap<(String, Priority), Seen>,
}

/// The answer of a look.
#[derive(Debug)]
struct Seen {
    at: Instant,
    counts_for: Duration,
    missing: Option<Error>,
}

impl Queues {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), seen: BTreeMap::new() }
    }

    /// An error if the queue of a job does not exist, or has no priorities and the job has one.
    ///
    /// # Errors
    ///
    /// An engine that cannot be reached.
    pub(super) async fn missing(&mut self, job: &Envelope) -> Result<Option<Error>> {
        let key = (job.queue.clone().into_owned(), job.priority());
        let before = self.seen.get(&key);
        if let Some(seen) = before.filter(|seen| seen.at.elapsed() < seen.counts_for) {
            return Ok(seen.missing.clone());
        }
        let again = before.filter(|seen| seen.missing.is_some()).map(|seen| seen.counts_for * 2);
        let missing = self.look(&key.0, key.1).await?;
        let [first, longest] = MISSING;
        let counts_for = match &missing {
            None => FRESH,
            Some(_) => again.unwrap_or(first).min(longest),
        };
        self.seen.retain(|_, seen| seen.at.elapsed() < 2 * longest);
        let seen = Seen { at: Instant::now(), counts_for, missing: missing.clone() };
        self.seen.insert(key, seen);
        Ok(missing)
    }

    async fn look(&self, queue: &str, priority: Priority) -> Result<Option<Error>> {
        let engine = self.client.engine();
        if engine.has_queue(queue, priority).await? {
            return Ok(None);
        }
        if priority != Priority::Normal && engine.has_queue(queue, Priority::Normal).await? {
            return Ok(Some(no_priorities(queue, priority)));
        }
        let text = format!(
            "queue `{queue}` does not exist; start a pool that works on it, or declare it with \
             `Client::declare`"
        );
        Ok(Some(Error::new(ErrorKind::NotFound, text)))
    }
}
