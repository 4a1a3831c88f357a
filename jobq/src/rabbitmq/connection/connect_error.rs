//! Connect errors, with advice.

use std::time::Duration;

use lapin::ErrorKind as Lapin;
use lapin::uri::AMQPUri;

use super::address::{Address, CHANNELS, FEWEST_CHANNELS, LONGEST_FRAME, host_and_port};
use super::tls::{self, Tls};
use crate::error::{Error, ErrorKind};
use crate::rabbitmq::errors::{ACCESS_REFUSED, NOT_ALLOWED, code};

/// A node's failure to connect.
#[derive(Debug)]
pub(crate) struct Unconnected {
    pub(crate) node: String,
    pub(crate) kind: ErrorKind,
    /// The finding and the advice.
    pub(crate) reason: String,
    pub(crate) source: Option<lapin::Error>,
    /// Whether every other node would fail the same way.
    pub(crate) everywhere: bool,
}

impl Unconnected {
    /// An error of `lapin`.
    pub(crate) fn with_source(
        address: &Address,
        tls: &Tls,
        node: &AMQPUri,
        error: lapin::Error,
    ) -> Self {
        let (kind, advice) = match tls::cause(&error) {
            Some(cause) => tls::explain(cause, &node.authority.host, tls.has_client_certificate()),
            None => advice(address, &node.authority.userinfo.username, &error),
        };
        // All nodes have the same users. A vhost may be down on one of them only, and each has a
        // certificate of its own.
        let everywhere = code(&error) == Some(ACCESS_REFUSED) || kind == ErrorKind::Invalid;
        let reason = format!("{error}; {advice}");
        Self { node: host_and_port(node), kind, reason, source: Some(error), everywhere }
    }

    /// Certificates that cannot be used.
    pub(crate) fn unprepared(node: &AMQPUri, error: &Error) -> Self {
        let (node, kind, reason) = (host_and_port(node), error.kind(), error.to_string());
        Self { node, kind, reason, source: None, everywhere: true }
    }

    /// Limits of the connection that are too low for jobq.
    pub(crate) fn too_narrow(node: &AMQPUri, connection: &lapin::Connection) -> Option<Self> {
        let agreed = connection.configuration();
        let reason = narrow(agreed.frame_max(), agreed.channel_max())?;
        let (node, kind) = (host_and_port(node), ErrorKind::Refused);
        Some(Self { node, kind, reason, source: None, everywhere: false })
    }

    /// No answer in time.
    pub(crate) fn silent(node: String, limit: Duration) -> Self {
        let reason = format!(
            "no answer in {}; check the host and the port, and whether the broker is overloaded or \
             a firewall drops the packets",
            crate::period::format(limit)
        );
        Self { node, kind: ErrorKind::Timeout, reason, source: None, everywhere: false }
    }
}

/// The limits that are too low.
fn narrow(frame_max: u32, channel_max: u16) -> Option<String> {
    if frame_max < LONGEST_FRAME {
        return Some(format!(
            "the broker limits frames to {frame_max} bytes, but jobq needs {LONGEST_FRAME}, since \
             the headers of a job must fit in one frame: set `frame_max` in rabbitmq.conf to at \
             least {LONGEST_FRAME} (the default)"
        ));
    }
    (channel_max < FEWEST_CHANNELS).then(|| {
        format!(
            "the broker allows {channel_max} channels per connection; {CHANNELS}: raise \
             `channel_max` in rabbitmq.conf (the default is 2047)"
        )
    })
}

/// Advice for errors other than TLS.
fn advice(address: &Address, user: &str, error: &lapin::Error) -> (ErrorKind, String) {
    let vhost = address.vhost();
    match (error.kind(), code(error)) {
        (_, Some(ACCESS_REFUSED)) if user.is_empty() => (
            ErrorKind::Refused,
            "the broker refuses the token: check the key that signed it, its audience (`aud`), \
             its scopes and its end (`exp`); the broker's log has the reason"
                .into(),
        ),
        (_, Some(ACCESS_REFUSED)) => (
            ErrorKind::Refused,
            format!(
                "the broker refuses user `{user}`: check the name and the password (`guest` may \
                 connect only from the broker's own machine)"
            ),
        ),
        (_, Some(NOT_ALLOWED)) if error.to_string().contains("limit (") => (
            ErrorKind::Refused,
            "a client needs one connection, a client with a pool two, and the doctor briefly one \
             more; close other connections, or raise the limit (`rabbitmqctl set_vhost_limits`, \
             `set_user_limits`, or `connection_max` in rabbitmq.conf)"
                .into(),
        ),
        (_, Some(NOT_ALLOWED)) if user.is_empty() => (
            ErrorKind::Refused,
            format!(
                "vhost `{vhost}` does not exist, or the token has no scope for it, such as \
                 `rabbitmq.write:{vhost}/*/*`: check the URL's path and the scopes"
            ),
        ),
        (_, Some(NOT_ALLOWED)) => (
            ErrorKind::Refused,
            format!(
                "vhost `{vhost}` does not exist, or user `{user}` may not access it: check the \
                 URL's path (no path means `/`, a lone slash the vhost with the empty name)"
            ),
        ),
        // The reaction of a TLS port to a client without TLS.
        (Lapin::IOError(io), _) if !address.is_tls() && has_ended(io.kind()) => (
            ErrorKind::Connection,
            "the server accepted the connection and then closed it: check that the port speaks \
             AMQP 0.9.1 without TLS; a TLS port (5671 by default) needs an `amqps://` URL"
                .into(),
        ),
        (Lapin::IOError(io), _) if has_ended(io.kind()) => (
            ErrorKind::Connection,
            "the broker closed the connection without a reason: check its log; it may require or \
             refuse a client certificate (`.client_certificate(chain, key)`)"
                .into(),
        ),
        (Lapin::IOError(_), _) => (
            ErrorKind::Connection,
            "check the host and the port (5672, or 5671 with TLS), and that the broker runs".into(),
        ),
        _ if address.is_tls() => {
            (ErrorKind::Connection, "check that the port speaks AMQP 0.9.1".into())
        }
        _ => (
            ErrorKind::Connection,
            "check that the port speaks AMQP 0.9.1 without TLS; a TLS port needs an `amqps://` URL"
                .into(),
        ),
    }
}

/// Whether the peer closed the connection.
pub(crate) fn has_ended(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The error if no node accepted the connection, with the reason of each node that was tried.
pub(crate) fn cannot_connect(address: &Address, failures: Vec<Unconnected>) -> Error {
    let several = address.count() > 1;
    let reason = |failure: &Unconnected| {
        if several {
            format!("{}: {}", failure.node, failure.reason)
        } else {
            failure.reason.clone()
        }
    };
    let reasons: Vec<_> = failures.iter().map(reason).collect();
    let message = format!("cannot connect to {address}: {}", reasons.join(". "));
    let kind = kind(&failures);
    // The message has all reasons. With several nodes a cause would show only one.
    let mut failures = failures.into_iter();
    match (failures.next().and_then(|first| first.source), failures.next()) {
        (Some(source), None) => Error::new(kind, message).with_source(source),
        _ => Error::new(kind, message),
    }
}

/// The kind of the failure that ended the tries, or the common one.
fn kind(failures: &[Unconnected]) -> ErrorKind {
    match failures {
        [.., last] if last.everywhere => last.kind,
        [first, rest @ ..] if rest.iter().all(|other| other.kind == first.kind) => first.kind,
        _ => ErrorKind::Connection,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(node: &str, kind: ErrorKind, everywhere: bool) -> Unconnected {
        Unconnected { node: node.into(), kind, reason: "why".into(), source: None, everywhere }
    }

    #[test]
    fn low_limits_are_named_with_the_needed_ones() {
        assert_eq!(narrow(LONGEST_FRAME, FEWEST_CHANNELS), None);
        assert_eq!(narrow(u32::MAX, u16::MAX), None);
        let table = [
            (LONGEST_FRAME - 1, 2_047, "frames to 131071 bytes, but jobq needs 131072"),
            (LONGEST_FRAME, 15, "allows 15 channels"),
        ];
        for (frame_max, channel_max, said) in table {
            let narrow = narrow(frame_max, channel_max).unwrap();
            assert!(narrow.contains(said) && narrow.contains("rabbitmq.conf"), "{narrow}");
        }
    }

    #[test]
    fn each_node_has_its_reason() {
        let address = |url| Address::parse(url, Duration::from_secs(1)).unwrap();
        let one = vec![failure("a:5672", ErrorKind::Timeout, false)];
        let error = cannot_connect(&address("amqp://a"), one);
        assert_eq!(error.to_string(), "cannot connect to amqp://guest:***@a:5672: why");
        let two = vec![
            failure("a:5672", ErrorKind::Timeout, false),
            failure("b:1", ErrorKind::Connection, false),
        ];
        let error = cannot_connect(&address("amqp://a,b:1"), two);
        let said = "cannot connect to amqp://guest:***@a:5672,b:1: a:5672: why. b:1: why";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn the_kind_is_the_common_one_or_the_last() {
        use ErrorKind::{Connection, Refused, Timeout};
        let table = [
            (vec![(Timeout, false)], Timeout),
            (vec![(Timeout, false), (Timeout, false)], Timeout),
            (vec![(Timeout, false), (Refused, false)], Connection),
            (vec![(Refused, false), (Refused, false)], Refused),
            (vec![(Timeout, false), (Refused, true)], Refused),
            (vec![], Connection),
        ];
        for (failures, expected) in table {
            let failures: Vec<_> = failures
                .into_iter()
                .map(|(kind, everywhere)| failure("a", kind, everywhere))
                .collect();
            assert_eq!(kind(&failures), expected, "{failures:?}");
        }
    }
}
