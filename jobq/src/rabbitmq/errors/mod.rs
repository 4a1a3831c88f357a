//! The errors of `lapin` and of the broker as errors of jobq.

pub(crate) mod conflict;

use std::time::Duration;

use lapin::ErrorKind as Lapin;

use self::conflict::conflict;
use crate::error::{Error, ErrorKind};

pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
pub(crate) const PRECONDITION_FAILED: u16 = 406;
pub(crate) const NOT_ALLOWED: u16 = 530;
const INTERNAL_ERROR: u16 = 541;

/// Texts of RabbitMQ if too few nodes are up (3.10, 4.0 and 4.3, two of three killed).
const WITHOUT_MAJORITY: [&str; 4] = ["nodedown", "cluster_not_formed", "timed out", "timeout"];

/// The code of a frame that does not fit.
pub(crate) const FRAME_ERROR: u16 = 501;

/// The code of the broker's refusal, if the error is one.
pub(crate) fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        Lapin::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// The code and the text of the broker's refusal, if the error is one.
pub(crate) fn refused(error: &lapin::Error) -> Option<(u16, &str)> {
    match error.kind() {
        Lapin::ProtocolError(error) => Some((error.get_id(), error.get_message().as_str())),
        _ => None,
    }
}

/// The code and the text of the broker's refusal in the cause of this error.
pub(crate) fn refused_in(error: &Error) -> Option<(u16, &str)> {
    std::error::Error::source(error)?.downcast_ref().and_then(refused)
}

/// The code of the broker's refusal in the cause of this error.
pub(crate) fn refusal(error: &Error) -> Option<u16> {
    refused_in(error).map(|(code, _)| code)
}

/// Whether the broker refused for want of a permission.
pub(crate) fn is_forbidden(error: &Error) -> bool {
    refusal(error) == Some(ACCESS_REFUSED)
}

/// Whether the broker refused a queue since it has no classic queues.
pub(crate) fn lacks_classic(error: &Error) -> bool {
    refused_in(error).is_some_and(|(code, text)| {
        code == INTERNAL_ERROR && text.contains("rabbit_classic_queue") && text.contains("disabled")
    })
}

/// The error of an operation on an open connection.
pub(crate) fn failure(doing: &str, error: lapin::Error) -> Error {
    let kind = match error.kind() {
        Lapin::ProtocolError(refusal) => match refusal.get_id() {
            PRECONDITION_FAILED => {
                return conflict(refusal.get_message().as_str()).with_source(error);
            }
            // A queue whose node or process is down exists.
            NOT_FOUND if refusal.get_message().as_str().contains("NOT_FOUND - no ") => {
                ErrorKind::NotFound
            }
            ACCESS_REFUSED | NOT_ALLOWED | RESOURCE_LOCKED => ErrorKind::Refused,
            _ if error.is_amqp_soft_error() => ErrorKind::Refused,
            _ => ErrorKind::Connection,
        },
        _ => ErrorKind::Connection,
    };
    let mut text = format!("{doing} failed: {error}");
    text.push_str(match code(&error) {
        Some(ACCESS_REFUSED) => {
            "; grant the user configure, write and read permissions on the namespace's queues and \
             exchanges (`rabbitmqctl set_permissions`)"
        }
        Some(NOT_ALLOWED) => channel_limit(&text).unwrap_or_default(),
        Some(NOT_FOUND) if kind == ErrorKind::Refused => {
            "; start the nodes that have its replicas (`rabbitmq-queues quorum_status` lists them; \
             the broker's log says why it is down)"
        }
        Some(INTERNAL_ERROR) if WITHOUT_MAJORITY.iter().any(|sign| text.contains(sign)) => {
            "; a majority of the cluster's nodes, and of the queue's replicas, must be up: start \
             the nodes that are down"
        }
        _ => "",
    });
    Error::new(kind, text).with_source(error)
}

/// The advice about a limit of channels, if the broker's text is about one.
fn channel_limit(text: &str) -> Option<&'static str> {
    if !text.contains("number of channels opened") {
        return None;
    }
    Some(if text.contains("opened for user") {
        "; a client needs 16 channels to enqueue, and two more for each queue of its pool, and all \
         connections of a user count: raise its limit (`rabbitmqctl set_user_limits`)"
    } else if text.contains("opened on node") {
        "; a client needs 16 channels to enqueue, and two more for each queue of its pool, and all \
         connections to a node count: raise `channel_max_per_node` in rabbitmq.conf"
    } else {
        "; a client needs 16 channels to enqueue, and two more for each queue of its pool: raise \
         `channel_max` in the URL or in rabbitmq.conf"
    })
}

/// The error of an operation on a connection that ended, with the reason of the end. The broker ends
/// the whole connection for one channel too many.
pub(crate) fn lost(doing: &str, reason: Option<&str>) -> Error {
    let Some(reason) = reason else {
        let text = format!("{doing} failed: the connection was lost");
        return Error::new(ErrorKind::Connection, text);
    };
    let advice = channel_limit(reason).unwrap_or_default();
    let text = format!("{doing} failed: the connection was lost: {reason}{advice}");
    Error::new(ErrorKind::Connection, text)
}

/// The error of an operation without an answer, and the likely reason.
pub(crate) fn timed_out(doing: &str, limit: Duration, trouble: &str) -> Error {
    let limit = crate::period::format(limit);
    let text = format!("{doing}: no answer from the broker in {limit}; {trouble}");
    Error::new(ErrorKind::Timeout, text)
}

/// The delivery's channel has ended.
pub(crate) fn stale(queue: &str) -> Error {
    Error::new(
        ErrorKind::Stale,
        format!(
            "the connection or the channel that delivered the job of queue `{queue}` was closed; \
             the broker redelivers the job"
        ),
    )
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    fn refused(code: u16, text: &str) -> Error {
        let error = AMQPError::from_id(code, text.into()).expect("a code of AMQP");
        failure("looking", Lapin::ProtocolError(error).into())
    }

    #[test]
    fn a_broker_without_classic_queues_says_so() {
        let table = [
            // RabbitMQ 4.3.6.
            (
                541,
                "INTERNAL_ERROR - Cannot declare a queue 'queue 'a' in vhost '/'' of type \
                 'rabbit_classic_queue' on node 'a@c': the corresponding feature flag is disabled",
                true,
            ),
            (541, "INTERNAL_ERROR - Cannot declare quorum queue 'q': cluster_not_formed", false),
            (406, "PRECONDITION_FAILED - queue of type rabbit_classic_queue is disabled", false),
        ];
        for (code, text, expected) in table {
            assert_eq!(lacks_classic(&refused(code, text)), expected, "{text}");
        }
        assert!(!lacks_classic(&Error::invalid("rabbit_classic_queue disabled")));
    }

    #[test]
    fn the_end_of_a_connection_has_its_reason() {
        let table = [
            (None, ErrorKind::Connection, "looking failed: the connection was lost"),
            (
                Some("it was closed"),
                ErrorKind::Connection,
                "looking failed: the connection was lost: it was closed",
            ),
            (
                Some("NOT_ALLOWED - number of channels opened for user 'ann' has reached the (3)"),
                ErrorKind::Connection,
                "set_user_limits",
            ),
        ];
        for (reason, kind, said) in table {
            let error = lost("looking", reason);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().ends_with(said) || error.to_string().contains(said));
        }
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        let table = [
            (403, "ACCESS_REFUSED - access to queue 'q'", ErrorKind::Refused, "set_permissions"),
            (404, "NOT_FOUND - no queue 'q' in vhost '/'", ErrorKind::NotFound, "'q'"),
            (404, "NOT_FOUND - no exchange 'x' in vhost '/'", ErrorKind::NotFound, "'x'"),
            (
                404,
                "NOT_FOUND - home node 'b@c' of durable queue 'q' in vhost '/' is down or inaccessible",
                ErrorKind::Refused,
                "start the nodes that have it",
            ),
            (405, "RESOURCE_LOCKED - exclusive", ErrorKind::Refused, "exclusive"),
            (406, "PRECONDITION_FAILED - inequivalent arg 'x'", ErrorKind::Conflict, "declaration"),
            (
                541,
                "INTERNAL_ERROR - Cannot declare quorum queue 'q' in vhost '/' on node 'a@c' with \
                 leader on node 'a@c': cluster_not_formed",
                ErrorKind::Connection,
                "start the nodes that are down",
            ),
            (
                541,
                "INTERNAL_ERROR - Could not add binding due to timeout",
                ErrorKind::Connection,
                "start the nodes that are down",
            ),
            (541, "INTERNAL_ERROR", ErrorKind::Connection, "INTERNAL_ERROR"),
            (
                530,
                "NOT_ALLOWED - number of channels opened for user 'ann' has reached the maximum \
                 allowed user limit of (3)",
                ErrorKind::Refused,
                "set_user_limits",
            ),
            // RabbitMQ 4.0 and 4.3.
            (
                530,
                "NOT_ALLOWED - number of channels opened on node 'a@c' has reached the maximum \
                 allowed limit of (3)",
                ErrorKind::Refused,
                "`channel_max_per_node`",
            ),
            (
                530,
                "NOT_ALLOWED - number of channels opened for user 'ann' has reached the maximum \
                 allowed user limit of 3",
                ErrorKind::Refused,
                "set_user_limits",
            ),
            (
                530,
                "NOT_ALLOWED - number of channels opened (20) has reached the negotiated \
                 channel_max (20)",
                ErrorKind::Refused,
                "`channel_max` in the URL",
            ),
        ];
        for (code, text, kind, said) in table {
            let error = refused(code, text);
            assert_eq!((error.kind(), refusal(&error)), (kind, Some(code)), "{error}");
            assert!(error.to_string().contains(said), "{error}");
            let told = error.to_string().matches("start ").count();
            assert!(told <= 1, "{error}");
        }
    }
}
