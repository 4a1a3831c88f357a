//! A message of the broker as a delivery of jobq.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::BasicProperties;
use lapin::message::Delivery as Message;

use super::settle::{Origin, RabbitReceipt, SoloState};
use super::shared::Shared;
use crate::engine::{Delivery, Solo};
use crate::rabbitmq::message::properties::{self, decode};
use crate::rabbitmq::topology::routing_key;

/// Which of the broker queues of a user's queue is consumed.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Work,
    /// The queue of solo runs, with the id of the run that its consumer expects.
    Solo(Arc<Mutex<Option<String>>>),
}

/// Builds the delivery of a message.
pub(super) fn delivery(
    shared: &Shared,
    source: &Source,
    origin: Arc<Origin>,
    mut message: Message,
) -> Delivery {
    let (names, queue) = (shared.names(), origin.queue);
    let route = (message.exchange.as_str(), message.routing_key.as_str());
    let topic = properties::topic_of_route(names, queue, route, &message.properties);
    let properties = &mut message.properties;
    let renamed = properties::keep_topic(properties, topic.as_deref());
    let mut received = decode(names, Cow::Borrowed(queue), properties, message.data);
    let wait = routing_key::wait_in(message.routing_key.as_str(), queue);
    received.envelope.retry_wait = wait.map(Duration::from_millis);
    let (history, due) = (received.history, properties::first_due(properties, &received));
    if history.died {
        shared.limited.notice(names, queue, properties);
    }
    let solo = match source {
        Source::Work => None,
        Source::Solo(expected) => Some(solo_state(properties, Arc::clone(expected))),
    };
    let solo_run = solo.as_ref().map(|state| state.solo);
    // Missing parts are added when the message is published again.
    let is_whole = received.has_id && !renamed && solo_run.is_none();
    let wait = wait.filter(|_| is_whole && received.is_movable);
    let (tag, envelope) = (message.delivery_tag, received.envelope);
    let receipt = RabbitReceipt::new(
        origin,
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
    delivery.due_at(due).crashed(history.crashes)
}

/// The state of a solo run from its message. A run id is accepted once: a redelivery must be
/// started again.
fn solo_state(properties: &BasicProperties, expected: Arc<Mutex<Option<String>>>) -> SoloState {
    let (starts, start) = properties::solo(properties);
    let started = {
        let mut expected = expected.lock().unwrap_or_else(PoisonError::into_inner);
        let started = start.is_some() && expected.as_deref() == start;
        if started {
            *expected = None;
        }
        started
    };
    SoloState { solo: Solo { starts, started }, expected }
}
