//! The routing key of a job: its queue, and the tier of its next retry. Pure.
//!
//! The broker routes by the key, at a fraction of the cost of a header for publishers and consumers
//! (docs/delays.md), and dead-lettering keeps it: a rejected job finds its tier by the key, and
//! then its queue.

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

/// The queue and the tier of a key. Any other key is taken as a queue's name.
pub(crate) fn read(key: &str) -> (&str, Option<u64>) {
    match key.rsplit_once('@').map(|(queue, wait)| (queue, decimal(wait))) {
        Some((queue, wait @ Some(_))) => (queue, wait),
        _ => (key, None),
    }
}

/// The tier of a key, if it belongs to a job of this queue.
pub(crate) fn wait_in(key: &str, queue: &str) -> Option<u64> {
    decimal(key.strip_prefix(queue)?.strip_prefix('@')?)
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
            assert_eq!(read(key), (queue, wait));
            assert_eq!(wait_in(key, queue), wait);
            assert_eq!(wait_in(key, "mai"), None);
            assert_eq!(wait_in(key, "other"), None);
            let probe = wait.map(|wait| probe(queue, wait));
            assert!(probe.is_none_or(|probe| read(&probe) == (&probe, None)), "{key}");
        }
    }

    #[test]
    fn what_is_no_key_of_a_job_says_no_tier() {
        let wrong =
            ["", "@", "mail@", "mail@solo", "mail@-1", "mail@+5", "mail@007", "mail@1 ", "a@b@"];
        for key in wrong.into_iter().chain(["mail@99999999999999999999", "mail@٣"]) {
            assert_eq!(read(key), (key, None));
            assert_eq!(wait_in(key, "mail"), None);
        }
        assert_eq!(read("@5"), ("", Some(5)));
        assert_eq!(read("a@b@5"), ("a@b", Some(5)));
    }
}
