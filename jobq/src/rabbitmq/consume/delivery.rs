//! A message of the broker as a delivery of jobq.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::BasicProperties;

use super::live::Taken;
use super::settle::{RabbitReceipt, SoloState};
use crate::engine::{Delivery, Solo};
use crate::guard::lock;
use crate::job::Priority;
use crate::rabbitmq::message::limited::LimitedQueues;
use crate::rabbitmq::message::properties::{self, decode};
use crate::rabbitmq::topology::routing_key;

/// Builds the deliveries of a queue.
#[derive(Debug, Clone)]
pub(super) struct Builder {
    pub(super) limited: Arc<LimitedQueues>,
    /// On the queue of solo runs, the id of the run that its consumer expects.
    pub(super) solo: Option<Arc<Mutex<Option<String>>>>,
    /// The name of jobs that come without one.
    pub(super) only_job: Option<&'static str>,
    /// The priority of the jobs, unless that is normal.
    pub(super) priority: Option<Priority>,
}

impl Builder {
    /// The delivery of a message.
    pub(super) fn delivery(&self, (session, mut message): Taken) -> Delivery {
        let context = Arc::clone(&session.context);
        let (names, queue) = (context.names(), context.queue);
        let route = (message.exchange.as_str(), message.routing_key.as_str());
        let subscribes = |topic: &str| context.declarer.known().subscribes(queue, topic);
        let topic =
            properties::topic_of_route(names, queue, route, &message.properties, subscribes);
        let properties = &mut message.properties;
        let renamed = properties::keep_topic(properties, topic.as_deref());
        let mut received = decode(names, Cow::Borrowed(queue), properties, message.data);
        let wait = routing_key::wait_in(message.routing_key.as_str(), queue);
        received.envelope.retry_wait = wait.map(Duration::from_millis);
        if received.envelope.name.is_none() {
            received.envelope.name = self.only_job.map(Cow::Borrowed);
        }
        if let Some(priority) = self.priority {
            // Another client may have sent it without the header.
            received.envelope.set_priority(priority);
        } else if received.envelope.priority() != Priority::Normal
            && !context.declarer.known().has_priorities(queue)
        {
            // The queue has no priorities any more, or the job is from another one.
            received.envelope.set_priority(Priority::Normal);
        }
        let (history, due) = (received.history, properties::first_due(properties, &received));
        if history.died {
            self.limited.notice(names, queue, properties);
        }
        let solo = self.solo.as_ref().map(|expected| solo_state(properties, Arc::clone(expected)));
        let solo_run = solo.as_ref().map(|state| state.solo);
        // Missing parts are added when the message is published again.
        let is_whole = received.has_id && !renamed && solo_run.is_none();
        let wait = wait.filter(|_| is_whole && received.is_movable);
        let (tag, envelope) = (message.delivery_tag, received.envelope);
        let has_time = received.has_time;
        let receipt = RabbitReceipt::new(
            session,
            (tag, message.routing_key),
            envelope,
            message.properties,
            wait,
            history.returns,
            solo,
        );
        let attempt = history.attempts.saturating_add(1);
        let mut delivery = Delivery::new(attempt, Box::new(receipt));
        delivery.solo = solo_run;
        let delivery = delivery.due_at(due).crashed(history.crashes);
        if has_time { delivery } else { delivery.undated() }
    }
}

/// The state of a solo run from its message. A run id is accepted once: a redelivery must be
/// started again.
fn solo_state(properties: &BasicProperties, expected: Arc<Mutex<Option<String>>>) -> SoloState {
    let (starts, start) = properties::solo(properties);
    let started = {
        let mut expected = lock(&expected);
        let started = start.is_some() && expected.as_deref() == start;
        if started {
            *expected = None;
        }
        started
    };
    SoloState { solo: Solo { starts, started }, expected }
}
