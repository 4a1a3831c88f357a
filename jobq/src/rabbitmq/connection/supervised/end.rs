//! The end of a connection, and its reason.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use lapin::{Connection, ErrorKind as Lapin, Event};

use crate::rabbitmq::errors::{FRAME_ERROR, code};

/// How often the state is polled in case no event reported the end.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long the event with the reason may come after the end of a connection.
const EVENT_DELAY: Duration = Duration::from_millis(50);

/// Waits until the connection has ended, and returns the reason, and whether it was an unreadable
/// message. Until then it reports when the broker stops reading and when it reads again.
///
/// The consumers' streams may not report the end.
pub(super) async fn end(
    connection: &Connection,
    events: impl Stream<Item = Event>,
    blocked: impl Fn(Option<String>),
) -> (String, bool) {
    let mut events = std::pin::pin!(events.fuse());
    let mut reason = None;
    loop {
        let connected = connection.status().connected();
        if !connected && let Some(reason) = reason {
            return reason;
        }
        // The event with the reason may come a moment before the end, or after it.
        let wait = if connected && reason.is_none() { POLL_INTERVAL } else { EVENT_DELAY };
        match tokio::time::timeout(wait, events.next()).await {
            // It ended a channel.
            Ok(Some(Event::Error(error))) if error.is_amqp_soft_error() => {}
            Ok(Some(Event::Error(error))) => {
                // The second one is lapin's own, for a frame that is longer than was agreed on: the
                // broker does not keep to that for headers.
                let unreadable = matches!(error.kind(), Lapin::ParsingError(_))
                    || code(&error) == Some(FRAME_ERROR);
                reason = Some((error.to_string(), unreadable));
            }
            Ok(Some(Event::ConnectionBlocked(cause))) => blocked(Some(cause)),
            Ok(Some(Event::ConnectionUnblocked)) => blocked(None),
            Ok(None) | Err(_) if !connected => return ("it was closed".to_owned(), false),
            Ok(None) => tokio::time::sleep(EVENT_DELAY).await,
            Ok(Some(_)) | Err(_) => {}
        }
    }
}
