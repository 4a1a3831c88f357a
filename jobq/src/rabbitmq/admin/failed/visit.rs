//! A visit: one pass, during which jobs are settled in batches as it is decided.
//!
//! A job that is retried is published, and removed once that is confirmed, so that it is always in
//! one of the two places. The broker does not confirm removals: whether they were lost with a
//! connection is not known.

use std::collections::VecDeque;

use lapin::message::Delivery;
use tokio::time::Instant;

use super::Access;
use super::pass::{FIRST, Pass};
use crate::engine::{Extent, Verdict, Visiting};
use crate::error::{Error, ErrorKind, Result};
use crate::job::JobId;
use crate::job::headers::By;
use crate::rabbitmq::message::properties::{Message, decode, decode_failed, fresh, return_lane};
use crate::rabbitmq::publish::Batch;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key::{self, Key};
use crate::rabbitmq::values::short;
use crate::telemetry::Who;

/// A job to be settled.
struct Decided {
    tag: u64,
    id: JobId,
    /// The message with which it is retried; `None` if it is deleted.
    retry: Option<Result<Message>>,
}

/// How many batches a broker that dies may have confirmed and not yet removed.
const UNAPPLIED: usize = 4;

/// The state of a visit.
struct Walk<'w> {
    access: &'w Access<'w>,
    visiting: &'w mut Visiting,
    decided: Vec<Decided>,
    /// Deleted jobs.
    deleted: Vec<JobId>,
    /// The numbers of jobs that the last [`UNAPPLIED`] batches retried.
    newest: VecDeque<usize>,
    /// Whether a job stays that was taken.
    keeps: bool,
}

/// Asks about the failed jobs, oldest first, and settles them.
pub(super) async fn run(access: &Access<'_>, visiting: &mut Visiting) {
    let broker = &access.failed.broker;
    let doing = format!("reading the failed jobs of queue `{}`", access.queue);
    let begun = broker.within(&doing, Pass::begin(&access.up, &access.name)).await;
    let mut pass = match begun {
        Ok(pass) => pass,
        Err(error) => return visiting.end(error),
    };
    visiting.visited.extent = Some(Extent::new(pass.left()));
    let (decided, deleted, newest) = (Vec::new(), Vec::new(), VecDeque::new());
    let mut walk = Walk { access, visiting, decided, deleted, newest, keeps: false };
    let walked = walk.walk(&mut pass, &doing).await;
    let ended = broker.within(&doing, pass.end()).await;
    let Walk { visiting, deleted, newest, .. } = walk;
    let visited = &mut visiting.visited;
    if ended.is_err() {
        // They are in their queue, and may still be failed as well.
        let certain = visited.settled.len() - newest.iter().sum::<usize>();
        visited.unknown.extend(visited.settled.split_off(certain));
    }
    let known = if ended.is_ok() { &mut visited.settled } else { &mut visited.unknown };
    known.extend(deleted);
    if let Err(error) = walked.and(ended) {
        visiting.end(error);
    }
}

impl Walk<'_> {
    async fn walk(&mut self, pass: &mut Pass<'_>, doing: &str) -> Result<()> {
        let broker = &self.access.failed.broker;
        let mut is_enough = false;
        while !is_enough {
            if pass.is_full() || self.decided.len() == FIRST {
                self.settle(pass).await?;
            }
            let Some(message) = broker.within(doing, pass.next()).await? else {
                self.visiting.visited.complete = true;
                return self.settle(pass).await;
            };
            is_enough = self.ask(message);
        }
        self.visiting.visited.complete = pass.is_at_end();
        self.settle(pass).await?;
        let enough = Instant::now();
        while pass.keeps_order(enough) && broker.within(doing, pass.next()).await?.is_some() {}
        Ok(())
    }

    /// Asks about a job, and returns whether it is the last one.
    fn ask(&mut self, message: Delivery) -> bool {
        let Access { failed, queue, .. } = self.access;
        let (tag, payload) = (message.delivery_tag, message.data.clone());
        let job = decode_failed(failed.known.names(), queue.clone(), &message.properties, payload);
        let id = job.id();
        let retry = match self.visiting.ask(job) {
            Verdict::Discard => None,
            Verdict::Retry => Some(self.retry(message, id, None)),
            Verdict::RetryBy { operation, once } => {
                Some(self.retry(message, id, Some(By { operation: &operation, once })))
            }
            verdict => {
                self.keeps = true;
                return verdict == Verdict::Enough;
            }
        };
        self.decided.push(Decided { tag, id, retry });
        false
    }

    /// The message with which a job is retried.
    fn retry(&self, message: Delivery, id: JobId, by: Option<By<'_>>) -> Result<Message> {
        let (names, queue) = (self.access.failed.known.names(), &self.access.queue);
        let mut read = decode(names, queue.clone(), &message.properties, Vec::new());
        // A message without an id gets the one that was shown.
        read.envelope.id = id;
        let who = Who::of_job(&read.envelope, queue);
        Ok(Message {
            to: Route {
                exchange: short(names.jobs())?,
                key: return_lane(&message.properties, queue),
            }
            .into(),
            properties: fresh(&message.properties, (&who, &read.envelope), by),
            payload: message.data,
        })
    }

    /// Settles what is decided. A job that cannot be retried stays.
    async fn settle(&mut self, pass: &mut Pass<'_>) -> Result<()> {
        // Jobs that are retried now could not be removed.
        pass.check()?;
        let mut batch = Batch::new(&self.access.failed.publisher);
        let (mut retried, mut tags) = (Vec::new(), Vec::new());
        for Decided { tag, id, retry } in self.decided.drain(..) {
            if let Some(message) = retry {
                let message = match message {
                    Ok(message) => in_lane(self.access, message).await,
                    error => error,
                };
                batch.send(message).await;
                retried.push((tag, id));
            } else {
                tags.push(tag);
                self.deleted.push(id);
            }
        }
        let visited = &mut self.visiting.visited;
        let mut lost = None;
        for (place, error) in batch.finish().await.into_iter().rev() {
            let (_, id) = retried.remove(place);
            self.keeps = true;
            lost = is_lost(&error).then(|| error.clone()).or(lost);
            if error.maybe_enqueued() {
                visited.unknown.push(id);
            } else {
                visited.refused.push((id, error));
            }
        }
        tags.extend(retried.iter().map(|(tag, _)| *tag));
        if self.newest.len() == UNAPPLIED {
            self.newest.pop_front();
        }
        self.newest.push_back(retried.len());
        visited.settled.extend(retried.into_iter().map(|(_, id)| id));
        tags.sort_unstable();
        pass.remove(&tags, !self.keeps).await?;
        lost.map_or(Ok(()), Err)
    }
}

/// Whether the error of one job is that of all others too.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Closed)
}

/// The message, for the lane of normal jobs if the queue has no others any more.
async fn in_lane(access: &Access<'_>, mut message: Message) -> Result<Message> {
    let Access { failed, up, .. } = access;
    let route = message.route();
    let Key { queue, lane, .. } = routing_key::read(route.key.as_str());
    if lane != queue && !failed.known.finds_priorities(up, queue, false).await? {
        message.to = Route::new(route.exchange.to_string(), queue.to_owned())?.into();
    }
    Ok(message)
}
