//! Which queues exist. RabbitMQ accepts a job for one that does not, and returns it later as unroutable.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::engine::{Part, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, Priority};

/// How long an answer counts. A queue that is deleted meanwhile makes the job unroutable, which is told
/// as for any other client.
const FRESH: Duration = Duration::from_secs(60);
/// How long it counts that a queue does not exist.
const FRESH_MISSING: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct Queues {
    client: Client,
    seen: BTreeMap<(String, Priority), (Instant, Option<Error>)>,
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
        if let Some((at, missing)) = self.seen.get(&key) {
            let fresh = if missing.is_none() { FRESH } else { FRESH_MISSING };
            if at.elapsed() < fresh {
                return Ok(missing.clone());
            }
        }
        let missing = self.look(&key.0, key.1).await?;
        self.seen.retain(|_, (at, _)| at.elapsed() < FRESH);
        self.seen.insert(key, (Instant::now(), missing.clone()));
        Ok(missing)
    }

    async fn look(&self, queue: &str, priority: Priority) -> Result<Option<Error>> {
        let Some(administer) = self.client.engine().administer() else { return Ok(None) };
        let parts = administer.parts(queue).await?;
        if parts.is_empty() {
            let text = format!(
                "queue `{queue}` does not exist; start a pool that works on it, or declare it with \
                 `Client::declare`"
            );
            return Ok(Some(Error::new(ErrorKind::NotFound, text)));
        }
        let lane = Place::of_due(priority);
        let is_unknown = |part: &Part| part.place == Place::Ready && part.jobs.known().is_none();
        if parts.iter().any(|part| part.place == lane || is_unknown(part)) {
            return Ok(None);
        }
        let text = format!(
            "queue `{queue}` has no priorities, and the job has the priority {}; start a pool that works \
             on the queue with a job that has the key `priorities`",
            priority.as_str()
        );
        Ok(Some(Error::new(ErrorKind::NotFound, text)))
    }
}
