//! The errors of `lapin` and of the broker as errors of jobq.

use std::time::Duration;

use lapin::ErrorKind as Lapin;

use super::conflict::conflict;
use crate::error::{Error, ErrorKind};

pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
pub(crate) const NOT_ALLOWED: u16 = 530;

/// The code by which the broker refused, if it did.
pub(crate) fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        Lapin::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// What went wrong while something was done on an open connection.
pub(crate) fn failure(doing: &str, error: lapin::Error) -> Error {
    let kind = match error.kind() {
        Lapin::ProtocolError(refusal) => match refusal.get_id() {
            PRECONDITION_FAILED => {
                return conflict(refusal.get_message().as_str()).because(error);
            }
            NOT_FOUND => ErrorKind::NotFound,
            ACCESS_REFUSED | NOT_ALLOWED | RESOURCE_LOCKED => ErrorKind::Refused,
            _ if error.is_amqp_soft_error() => ErrorKind::Refused,
            _ => ErrorKind::Connection,
        },
        _ => ErrorKind::Connection,
    };
    let mut text = format!("{doing} failed: {error}");
    if code(&error) == Some(ACCESS_REFUSED) {
        text.push_str(
            "; give the user the permissions to configure, write and read what has the \
             namespace's name (`rabbitmqctl set_permissions`)",
        );
    }
    Error::new(kind, text).because(error)
}

/// The broker did not answer, maybe because of this trouble.
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
            "the connection or the channel through which queue `{queue}` delivered the job has \
             ended; the broker delivers it again"
        ),
    )
}
