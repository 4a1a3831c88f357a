//! Strays, the unroutable messages: every pool sends the messages of the orphan queue once more,
//! and moves those that come back to the failed jobs, where they can be found.
//!
//! A broker that starts dead-letters overdue messages while it still restores its bindings, so a
//! message may be unroutable although its queue exists.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lapin::BasicProperties;
use lapin::message::Delivery as Stray;
use lapin::types::ShortString;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::background;
use crate::error::Result;
use crate::job::{FailedReason, check_name};
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::consume::session::Session;
use crate::rabbitmq::consume::subscription::Subscription;
use crate::rabbitmq::errors::{ACCESS_REFUSED, NOT_FOUND, code};
use crate::rabbitmq::message::deaths::{Expiration, attempts_used, expirations, queues_of_death};
use crate::rabbitmq::message::limited::LimitedQueues;
use crate::rabbitmq::message::properties::{self, Changes, Message};
use crate::rabbitmq::publish::Publisher;
use crate::rabbitmq::publish::confirm::{not_stored, send_alone, stored};
use crate::rabbitmq::topology::declarer::Declarer;
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::levels::End;
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::topology::routing::Route;
use crate::rabbitmq::topology::routing_key;
use crate::rabbitmq::topology::upkeep::Restored;
use crate::repeated::{Line, Repeated};
use crate::telemetry::Who;

/// How many strays are taken at once.
pub(crate) const PREFETCH: u16 = 16;
/// How long a stray is kept if the orphan queue's failed jobs are not routable either.
const LOST_BINDING: Duration = Duration::from_secs(1);
/// How long a stray is kept that needs what this version lacks.
const UNMET: Duration = Duration::from_secs(30);

/// Resends strays or moves them to the failed jobs.
#[derive(Debug)]
pub(crate) struct Strays {
    pub(crate) broker: Arc<Broker>,
    pub(crate) declarer: Arc<Declarer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) limited: Arc<LimitedQueues>,
}

/// Moves strays until the engine is closed.
pub(crate) async fn run(strays: Strays, mut subscription: Subscription) {
    subscription.resume();
    let strays = Arc::new(strays);
    let moving = async {
        let (mut restored, mut failed) = (Restored::default(), Repeated::default());
        loop {
            let (session, stray) = match subscription.next(true).await {
                Ok(taken) => taken,
                Err(error) if error.is_closed() => return,
                Err(error) => {
                    tracing::error!(
                        %error,
                        "orphan queue no longer consumed; unroutable messages stay in it"
                    );
                    return;
                }
            };
            let tag = stray.delivery_tag;
            if let Some(needs) = unmet_need(strays.declarer.known().names(), &stray) {
                background::spawn(Arc::clone(&strays).leave(session, stray, needs));
                continue;
            }
            match strays.move_on(&session, stray, &mut restored).await {
                Ok(()) => {
                    session.acknowledge(tag).await;
                }
                Err(error) => {
                    if let Some(Line { more }) = failed.happens(Instant::now()) {
                        tracing::warn!(
                            %error, more,
                            "could not move an unroutable message; retrying"
                        );
                    }
                    subscription.start_over();
                }
            }
        }
    };
    strays.broker.closing().run_until_cancelled(moving).await;
}

impl Strays {
    /// Leaves a stray to other workers: this version may not know its route. After a while it is
    /// published by that route again, and comes to the end of the orphan queue if nothing takes it.
    async fn leave(self: Arc<Self>, session: Arc<Session>, stray: Stray, needs: String) {
        let names = self.declarer.known().names();
        let who = who(names, &stray);
        let Who { job, id, queue, attempt, .. } = &who;
        tracing::warn!(
            %job, %id, %queue, attempt, needs,
            "unroutable message needs a feature that this version of jobq lacks; leaving it to \
             another worker"
        );
        let again = async {
            sleep(UNMET).await;
            self.send(&again(names, &stray, &who, Changes::next(who.attempt - 1))).await
        };
        match self.broker.closing().run_until_cancelled(again).await {
            Some(Ok(true)) => drop(session.acknowledge(stray.delivery_tag).await),
            _ => session.requeue(stray.delivery_tag),
        }
    }

    /// Sends a stray again, or moves it to the failed jobs.
    async fn move_on(
        &self,
        session: &Session,
        stray: Stray,
        restored: &mut Restored,
    ) -> Result<()> {
        let names = self.declarer.known().names();
        let stray = with_topic(names, stray);
        let expired = expired_in(names, &stray.properties).map(|(queue, _)| queue.to_owned());
        let is_unroutable = expired.is_none();
        if is_unroutable
            && (self.resend(&stray, restored).await? || has_no_subscribers(names, &stray))
        {
            return Ok(());
        }
        let place = match expired {
            Some(queue) => queue,
            None => self.failed_queue(&stray).await?,
        };
        // A job that failed before was counted then.
        let is_counted = is_unroutable && !properties::is_failed(&stray.properties);
        self.limited.notice(names, &place, &stray.properties);
        let who = who(names, &stray);
        let message = Arc::new(failed(names, stray, &who, &place, self.broker.clock().now())?);
        let alive = || session.is_alive();
        self.publisher.publish_surely(message, &who, alive, &CancellationToken::new()).await?;
        if is_counted {
            self.broker.target().metrics.unroutable();
        }
        Ok(())
    }

    /// Sends a stray again, unless that was done before. True if it was routed.
    async fn resend(&self, stray: &Stray, restored: &mut Restored) -> Result<bool> {
        let names = self.declarer.known().names();
        if properties::is_failed(&stray.properties) || properties::is_stray_again(&stray.properties)
        {
            return Ok(false);
        }
        let died = named_by(names, key_of(names, stray), &stray.properties);
        if let Some(queue) = died {
            // The headers show a policy, and are dropped from the new message.
            self.limited.notice(names, queue, &stray.properties);
        }
        let up = self.broker.up().await?;
        let source = (stray.exchange.as_str(), stray.routing_key.as_str());
        let of_levels = names.end_of_levels(source.0, source.1).is_some();
        restored.restore(&self.declarer, &up, key_of(names, stray), of_levels).await;
        let who = who(names, stray);
        let message = again(names, stray, &who, Changes::stray(who.attempt - 1));
        let Who { job, id, queue, attempt, .. } = who;
        let route = message.route();
        let (exchange, key) = (route.exchange.as_str(), route.key.as_str());
        tracing::warn!(
            %job, %id, %queue, attempt, exchange, key,
            "unroutable message; republishing it once"
        );
        self.send(&message).await
    }

    /// Sends a message on its way. False if its exchange is missing, or none of this user's.
    async fn send(&self, message: &Message) -> Result<bool> {
        let up = self.broker.up().await?;
        // A channel of its own, which ends if the exchange is missing.
        match send_alone(&up, message, false).await? {
            Ok(confirmation) => stored(message, &confirmation).map(|()| true),
            Err(error) if matches!(code(&error), Some(NOT_FOUND | ACCESS_REFUSED)) => Ok(false),
            Err(error) => Err(not_stored(message, error)),
        }
    }

    /// The queue whose failed jobs the stray joins: the one that it names.
    ///
    /// Whether that queue exists is not checked, since looking for a missing one costs a channel
    /// number. If it is missing, the stray comes back, marked as failed, and then joins the failed
    /// jobs of the orphan queue, which prevents a loop.
    async fn failed_queue(&self, stray: &Stray) -> Result<String> {
        let names = self.declarer.known().names();
        if !properties::is_failed(&stray.properties) {
            let (exchange, key) = (stray.exchange.as_str(), key_of(names, stray));
            if names.topic_of(exchange, stray.routing_key.as_str()).is_some() {
                return Ok(ORPHAN.to_owned());
            }
            let queue = named_by(names, key, &stray.properties);
            return Ok(queue.unwrap_or(ORPHAN).to_owned());
        }
        if stray.routing_key.as_str() == ORPHAN {
            let up = self.broker.up().await?;
            apply(&up, &self.declarer.known().topology(&Wanted::shared())).await?;
            sleep(LOST_BINDING).await;
        }
        Ok(ORPHAN.to_owned())
    }
}

/// The first need of a stray that this version lacks.
fn unmet_need(names: &Names, stray: &Stray) -> Option<String> {
    let received = decode(names, &stray.properties);
    received.envelope.headers.unmet_need().map(str::to_owned)
}

/// Stores the stray's topic in a header if only its exchange and key state it.
fn with_topic(names: &Names, mut stray: Stray) -> Stray {
    let source = (stray.exchange.as_str(), stray.routing_key.as_str());
    let queue = key_of(names, &stray);
    let route = |queue, source, subscribes| {
        let topic =
            properties::topic_of_route(names, queue, source, &stray.properties, |_| subscribes);
        topic.map(Cow::into_owned)
    };
    let topic = route(queue, source, false).or_else(|| {
        let (queue, end) = expired_in(names, &stray.properties)?;
        // It was in the queue.
        route(queue, (end.exchange, end.key), true)
    });
    properties::keep_topic(&mut stray.properties, topic.as_deref());
    stray
}

/// The identity of the stray in logs.
pub(crate) fn who(names: &Names, stray: &Stray) -> Who {
    let mut received = decode(names, &stray.properties);
    let queue = key_of(names, stray);
    let headers = stray.properties.headers().clone().unwrap_or_default();
    received.envelope.attempts = attempts_used(&headers, names.work_queues(queue));
    Who::of_job(&received.envelope, queue)
}

/// The stray, to be published again. The key of a job has no tier any more: its queue
/// may exist without that tier, and then has no binding for such a key.
fn again(names: &Names, stray: &Stray, who: &Who, changes: Changes) -> Message {
    let exchange = stray.exchange.as_str();
    let to_queue = exchange == names.jobs() || exchange == names.deliver();
    let lane = routing_key::read(stray.routing_key.as_str()).lane;
    let plain = to_queue.then(|| ShortString::try_new(lane).ok()).flatten();
    let key = plain.unwrap_or_else(|| stray.routing_key.clone());
    let until = properties::wait_until(&stray.properties);
    let changes = changes.wait_until(until);
    let job = decode(names, &stray.properties).envelope;
    Message {
        to: Route { exchange: stray.exchange.clone(), key }.into(),
        properties: properties::again(&stray.properties, (who, &job), changes),
        payload: stray.data.clone(),
    }
}

/// Whether this is a delayed event whose topic had no subscribers when it was due. The broker would
/// have dropped one without a delay.
pub(crate) fn has_no_subscribers(names: &Names, stray: &Stray) -> bool {
    let (exchange, key) = (stray.exchange.as_str(), stray.routing_key.as_str());
    let topic = names.topic_of(exchange, key).filter(|_| names.is_out_of_levels(exchange, key));
    if let Some(topic) = topic {
        tracing::debug!(topic, "delayed event had no subscribers when due");
    }
    topic.is_some()
}

/// The routing key of the stray's direct route, without a level and a tier.
pub(crate) fn key_of<'s>(names: &Names, stray: &'s Stray) -> &'s str {
    let (exchange, key) = (stray.exchange.as_str(), stray.routing_key.as_str());
    match names.end_of_levels(exchange, key) {
        Some(End::Topic(topic)) => topic,
        Some(End::Queue(lane)) => routing_key::read(lane).queue,
        None => routing_key::read(key).queue,
    }
}

fn decode(names: &Names, properties: &BasicProperties) -> properties::Received {
    properties::decode(names, Cow::Borrowed(ORPHAN), properties, Vec::new())
}

/// The queue in which a message expired by its own `expiration`, before a worker had it.
fn expired_in<'s>(
    names: &Names,
    properties: &'s BasicProperties,
) -> Option<(&'s str, Expiration<'s>)> {
    let ends = properties.headers().iter().flat_map(expirations);
    let mut ends = ends.filter_map(|end| Some((names.queue_of(end.queue)?, end)));
    ends.find(|(queue, end)| names.work_queues(queue).iter().any(|name| name == end.queue))
}

/// The queue that a stray names: by its routing key, else by its dead-letter history.
pub(crate) fn named_by<'s>(
    names: &'s Names,
    key: &'s str,
    properties: &'s BasicProperties,
) -> Option<&'s str> {
    let died = properties.headers().iter().flat_map(queues_of_death);
    let mut queues = std::iter::once(key).chain(died.filter_map(|name| names.queue_of(name)));
    queues.find(|queue| check_name("queue", queue).is_ok())
}

/// The stray as a failed job of this queue.
pub(crate) fn failed(
    names: &Names,
    stray: Stray,
    who: &Who,
    place: &str,
    now: SystemTime,
) -> Result<Message> {
    let key = key_of(names, &stray);
    let expired = expired_in(names, &stray.properties);
    let (reason, error) = match expired {
        None => (FailedReason::Unroutable, describe(names, &stray)),
        Some((_, end)) => (FailedReason::Expired, describe_expiration(&end)),
    };
    let mut changes = if properties::is_failed(&stray.properties) {
        // The headers state the reason already.
        Changes::default()
    } else {
        Changes::failed(reason, &error, who.attempt - 1, now)
    };
    if key != place && expired.is_none() {
        changes = changes.sent_to(key);
    }
    let job = decode(names, &stray.properties).envelope;
    Ok(Message {
        to: Route::new(names.failed_jobs(), place.to_owned())?.into(),
        properties: properties::again(&stray.properties, (who, &job), changes),
        payload: stray.data,
    })
}

/// Why a message expired in its queue.
fn describe_expiration(end: &Expiration<'_>) -> String {
    format!(
        "the `expiration` of {} ms that its publisher set ended before a worker took the job; set \
         the header `jobq-expires-at` instead",
        end.original
    )
}

/// The reason for which the stray is unroutable.
fn describe(names: &Names, stray: &Stray) -> String {
    let (key, exchange) = (stray.routing_key.as_str(), stray.exchange.as_str());
    let unbound = format!("no binding of exchange `{exchange}` matches routing key `{key}`");
    let routing_key::Key { queue, lane, wait } = routing_key::read(key);
    let why = match wait {
        Some(wait) if exchange == names.retry() => {
            format!("queue `{queue}` has no tier of {wait} ms")
        }
        None if exchange == names.retry() => {
            format!("a tier is addressed by `@` and milliseconds, as in `{queue}@30000`")
        }
        _ if names.is_level(exchange) => {
            "the key of a level is eight numbers, then `q` and a queue that exists, as in \
             `0.0.0.0.2.7.13.8.q.mail`"
                .to_owned()
        }
        _ if lane != queue => {
            format!("queue `{queue}` does not exist, or its jobs have no priorities")
        }
        _ => format!("no client or pool has declared a queue `{queue}`"),
    };
    format!("{unbound}: {why}")
}

#[cfg(test)]
mod tests;
