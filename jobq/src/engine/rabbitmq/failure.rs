//! The errors of `lapin` and of the broker as errors of jobq.

use std::time::Duration;

use lapin::ErrorKind as Lapin;

use super::address::Address;
use super::conflict::conflict;
use crate::error::{Error, ErrorKind};

pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;

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
    Error::new(kind, format!("{doing} failed: {error}")).because(error)
}

/// What went wrong while connecting, and what to look at.
pub(crate) fn cannot_connect(address: &Address, error: lapin::Error) -> Error {
    let (user, vhost) = (address.user(), address.vhost());
    let (kind, advice) = match (error.kind(), code(&error)) {
        (_, Some(ACCESS_REFUSED)) => (
            ErrorKind::Refused,
            format!(
                "the broker refuses the user `{user}`: check the name and the password (`guest` \
                 may connect from the broker's own machine only)"
            ),
        ),
        (_, Some(NOT_ALLOWED)) => (
            ErrorKind::Refused,
            format!(
                "the vhost `{vhost}` does not exist or is not open to the user `{user}`: check the \
                 URL's path (none means `/`, a lone slash the vhost without a name)"
            ),
        ),
        (Lapin::IOError(_), _) => (
            ErrorKind::Connection,
            "check that the broker runs there, the host and the port (5672, with TLS 5671)".into(),
        ),
        _ => (ErrorKind::Connection, "check that the port speaks AMQP 0.9.1".into()),
    };
    Error::new(kind, format!("cannot connect to {address}: {error}; {advice}")).because(error)
}

/// The broker did not answer.
pub(crate) fn timed_out(doing: &str, limit: Duration) -> Error {
    let limit = crate::period::format(limit);
    Error::new(
        ErrorKind::Timeout,
        format!(
            "{doing}: no answer from the broker in {limit}; it may be down, blocked by an alarm \
             (memory, disk) or without a quorum"
        ),
    )
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
