//! Parses the broker's refusal of a declaration: the queue or exchange, the argument, and the
//! current and the requested value.

use crate::error::{Error, ErrorKind};

/// The error of a declaration that the broker refused with 406.
pub(crate) fn conflict(text: &str) -> Error {
    if let Some((_, limit)) = text.split_once("limit in ") {
        return Error::new(
            ErrorKind::Refused,
            format!(
                "the broker refused a declaration: the limit in {limit}; jobq needs two shared \
                 queues, three for each queue and one more for each delay of its retries, one more \
                 for pools, and 116 for other delays: raise the limit (`rabbitmqctl \
                 set_vhost_limits`) or delete unused queues"
            ),
        );
    }
    let message = if let Some(found) = Inequivalent::parse(text) {
        let Inequivalent { argument, kind, name, vhost, wanted, current } = found;
        format!(
            "{kind} `{name}` (vhost `{vhost}`) exists with other properties than jobq's: \
             `{argument}` is {current}, jobq needs {wanted} (the broker names the first \
             difference only); delete it once it is empty and unused, or give this program \
             another namespace"
        )
    } else if text.contains("invalid arg") {
        format!(
            "the broker does not accept an argument that jobq needs: {text}; jobq requires the \
             quorum queues of RabbitMQ 3.10 or later"
        )
    } else {
        format!("the broker refused a declaration: {text}")
    };
    Error::new(ErrorKind::Conflict, message)
}

/// `inequivalent arg 'A' for queue 'Q' in vhost 'V': received W but current is C`.
#[derive(Debug, PartialEq, Eq)]
struct Inequivalent<'t> {
    argument: &'t str,
    kind: &'t str,
    name: &'t str,
    vhost: &'t str,
    wanted: &'t str,
    current: &'t str,
}

impl<'t> Inequivalent<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (_, rest) = text.split_once("inequivalent arg '")?;
        let (argument, rest) = rest.split_once("' for ")?;
        let (kind, rest) = rest.split_once(" '")?;
        let (name, rest) = rest.split_once("' in vhost '")?;
        let (vhost, rest) = rest.split_once("': received ")?;
        let (wanted, current) = rest.split_once(" but current is ")?;
        // Some versions write `the value '1' of type 'signedint'`.
        let current = current.strip_prefix("the value ").unwrap_or(current);
        Some(Self { argument, kind, name, vhost, wanted, current: current.trim_end() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_queues_is_no_conflict() {
        for text in [
            "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost 'lim' (1) is reached",
            "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in cluster (1) is reached",
        ] {
            let error = conflict(text);
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            let said = error.to_string();
            assert!(said.contains("(1) is reached") && said.contains("set_vhost_limits"), "{said}");
        }
    }

    #[test]
    fn states_the_current_and_the_requested_value() {
        let table = [
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'jobq:a@wait.1s' \
                 in vhost '/': received '2000' but current is '1000'",
                "queue `jobq:a@wait.1s` (vhost `/`) exists with other properties than jobq's: \
                 `x-message-ttl` is '1000', jobq needs '2000'",
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q' in vhost \
                 'v': received none but current is the value '1000' of type 'signedint'",
                "queue `q` (vhost `v`) exists with other properties than jobq's: \
                 `x-delivery-limit` is '1000' of type 'signedint', jobq needs none",
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': \
                 received 'quorum' but current is 'classic'",
                "`x-queue-type` is 'classic', jobq needs 'quorum'",
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'X' in vhost '/': \
                 received 'direct' but current is 'topic'",
                "exchange `X` (vhost `/`) exists with other properties than jobq's: `type` is \
                 'topic', jobq needs 'direct'",
            ),
            (
                "PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue 'Q' in vhost '/' of \
                 queue type rabbit_classic_queue",
                "invalid arg 'x-delivery-limit' for queue 'Q'",
            ),
            ("PRECONDITION_FAILED - inequivalent arg 'x", "refused a declaration: PRECONDITION"),
            ("", "refused a declaration: "),
        ];
        for (text, expected) in table {
            let error = conflict(text);
            assert!(error.is_conflict());
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
