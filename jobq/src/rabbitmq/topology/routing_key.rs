//! The routing key of a job: its queue, its priority, and the tier of its next retry. Pure.
//!
//! The broker routes by the key, at a fraction of the cost of a header for publishers and consumers
//! (docs/delays.md), and dead-lettering keeps it: a rejected job finds its tier by the key, and
//! then its queue.
//!
//! A priority other than normal stands between queue and tier, as in `mail@high@30000`. The key
//! without its tier is the *lane* of the job: `mail`, `mail@high` or `mail@low`. Each lane has a queue
//! of the broker.

use std::borrow::Cow;

use crate::job::Priority;

/// The parts of a routing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key<'k> {
    pub(crate) queue: &'k str,
    /// The key without its tier.
    pub(crate) lane: &'k str,
    /// The tier, in milliseconds.
    pub(crate) wait: Option<u64>,
}

/// The lane of the jobs of a queue with this priority.
pub(crate) fn lane(queue: &str, priority: Priority) -> Cow<'_, str> {
    match priority {
        Priority::Normal => Cow::Borrowed(queue),
        other => Cow::Owned([queue, "@", other.as_str()].concat()),
    }
}

/// The lanes of a queue whose jobs may have priorities, but for that of normal jobs.
pub(crate) fn other_lanes(queue: &str) -> [String; 2] {
    Priority::OTHERS.map(|priority| lane(queue, priority).into_owned())
}

/// The key of a job in this lane, with the tier of its next retry. `None` where the broker cannot
/// choose the tier.
pub(crate) fn write(lane: &str, wait: Option<u64>) -> String {
    match wait {
        Some(millis) => [lane, "@", itoa::Buffer::new().format(millis)].concat(),
        None => lane.to_owned(),
    }
}

/// The key of probes of a tier. It belongs to no job.
pub(crate) fn probe(queue: &str, millis: u64) -> String {
    write(queue, Some(millis)) + PROBE
}

/// The end of the keys of probes of tiers.
const PROBE: &str = "@probe";

/// Reads a key. Any that is none of a job is taken as a queue's name.
pub(crate) fn read(key: &str) -> Key<'_> {
    let (lane, wait) = match key.rsplit_once('@').map(|(lane, wait)| (lane, decimal(wait))) {
        Some((lane, wait @ Some(_))) => (lane, wait),
        _ => (key, None),
    };
    let is_other = |text: &str| Priority::OTHERS.iter().any(|other| other.as_str() == text);
    let other = lane.rsplit_once('@').filter(|(_, priority)| is_other(priority));
    Key { queue: other.map_or(lane, |(queue, _)| queue), lane, wait }
}

/// The tier of a key, if it belongs to a job of this queue.
pub(crate) fn wait_in(key: &str, queue: &str) -> Option<u64> {
    let rest = key.strip_prefix(queue)?.strip_prefix('@')?;
    let of_other = |other: &Priority| rest.strip_prefix(other.as_str())?.strip_prefix('@');
    decimal(Priority::OTHERS.iter().find_map(of_other).unwrap_or(rest))
}

/// A whole number in the form that jobq writes.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let table = [
            ("mail", None, "mail"),
            ("mail.welcome", Some(30_000), "mail.welcome@30000"),
            ("mail", Some(0), "mail@0"),
            ("mail", Some(u64::MAX), "mail@18446744073709551615"),
        ];
        for (queue, wait, key) in table {
            let written = write(queue, wait);
            assert_eq!((written.as_str(), written.capacity()), (key, key.len()));
            assert_eq!(read(key), Key { queue, lane: queue, wait });
            assert_eq!(wait_in(key, queue), wait);
            assert_eq!(wait_in(key, "mai"), None);
            assert_eq!(wait_in(key, "other"), None);
            let probe = wait.map(|wait| probe(queue, wait));
            assert!(probe.is_none_or(|probe| read(&probe).queue == probe), "{key}");
        }
    }

    #[test]
    fn what_is_no_key_of_a_job_says_no_tier() {
        let wrong =
            ["", "@", "mail@", "mail@solo", "mail@-1", "mail@+5", "mail@007", "mail@1 ", "a@b@"];
        for key in wrong.into_iter().chain(["mail@99999999999999999999", "mail@٣"]) {
            assert_eq!(read(key), Key { queue: key, lane: key, wait: None });
            assert_eq!(wait_in(key, "mail"), None);
        }
        assert_eq!(read("@5"), Key { queue: "", lane: "", wait: Some(5) });
        assert_eq!(read("a@b@5"), Key { queue: "a@b", lane: "a@b", wait: Some(5) });
    }

    #[test]
    fn a_priority_stands_between_queue_and_tier() {
        for (key, queue, lane, wait) in [
            ("mail@high", "mail", "mail@high", None),
            ("mail@low@30000", "mail", "mail@low", Some(30_000)),
            ("mail@higher", "mail@higher", "mail@higher", None),
            ("mail@high@low", "mail@high", "mail@high@low", None),
            ("mail@5@high", "mail@5", "mail@5@high", None),
            ("mail@solo@5", "mail@solo", "mail@solo", Some(5)),
        ] {
            assert_eq!(read(key), Key { queue, lane, wait }, "{key}");
            let own = wait.filter(|_| queue == "mail");
            assert_eq!(wait_in(key, "mail"), own, "{key}");
        }
    }
}
