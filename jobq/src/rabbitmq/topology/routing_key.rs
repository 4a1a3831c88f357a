//! The routing key of a job: its queue, its level of priority, and the tier of its next retry. Pure.
//!
//! The broker routes by the key, at a fraction of the cost of a header for publishers and consumers
//! (docs/delays.md), and dead-lettering keeps it: a rejected job finds its tier by the key, and
//! then its queue.
//!
//! A level stands between queue and tier, as in `mail@high@30000`. This version writes none, and reads
//! such keys for the sake of later ones.

/// The levels of priority that a key may name.
const LEVELS: [&str; 2] = ["high", "low"];

/// The parts of a routing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key<'k> {
    pub(crate) queue: &'k str,
    /// The queue with its level: the key without its tier.
    pub(crate) place: &'k str,
    /// The tier, in milliseconds.
    pub(crate) wait: Option<u64>,
}

/// The key of a job of this queue, with the tier of its next retry. `None` where the broker cannot
/// choose the tier.
pub(crate) fn write(queue: &str, wait: Option<u64>) -> String {
    match wait {
        Some(millis) => [queue, "@", itoa::Buffer::new().format(millis)].concat(),
        None => queue.to_owned(),
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
    let (place, wait) = match key.rsplit_once('@').map(|(place, wait)| (place, decimal(wait))) {
        Some((place, wait @ Some(_))) => (place, wait),
        _ => (key, None),
    };
    let with_level = place.rsplit_once('@').filter(|(_, level)| LEVELS.contains(level));
    Key { queue: with_level.map_or(place, |(queue, _)| queue), place, wait }
}

/// The tier of a key, if it belongs to a job of this queue.
pub(crate) fn wait_in(key: &str, queue: &str) -> Option<u64> {
    let rest = key.strip_prefix(queue)?.strip_prefix('@')?;
    let without_level = LEVELS.iter().find_map(|level| rest.strip_prefix(level)?.strip_prefix('@'));
    decimal(without_level.unwrap_or(rest))
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
            assert_eq!(read(key), Key { queue, place: queue, wait });
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
            assert_eq!(read(key), Key { queue: key, place: key, wait: None });
            assert_eq!(wait_in(key, "mail"), None);
        }
        assert_eq!(read("@5"), Key { queue: "", place: "", wait: Some(5) });
        assert_eq!(read("a@b@5"), Key { queue: "a@b", place: "a@b", wait: Some(5) });
    }

    #[test]
    fn a_level_stands_between_queue_and_tier() {
        for (key, queue, place, wait) in [
            ("mail@high", "mail", "mail@high", None),
            ("mail@low@30000", "mail", "mail@low", Some(30_000)),
            ("mail@higher", "mail@higher", "mail@higher", None),
            ("mail@high@low", "mail@high", "mail@high@low", None),
            ("mail@5@high", "mail@5", "mail@5@high", None),
            ("mail@solo@5", "mail@solo", "mail@solo", Some(5)),
        ] {
            assert_eq!(read(key), Key { queue, place, wait }, "{key}");
            let own = wait.filter(|_| queue == "mail");
            assert_eq!(wait_in(key, "mail"), own, "{key}");
        }
    }
}
