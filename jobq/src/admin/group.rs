//! Groups of failed jobs with like errors. Pure.

use std::collections::HashMap;
use std::time::SystemTime;

use serde::Serialize;
use uuid::Uuid;

use crate::engine::Extent;
use crate::job::{FailedJob, FailedReason, JobId, rfc3339};

/// The most characters of an error's text in a group.
const MAX_CHARACTERS: usize = 200;
/// The most groups; the jobs of further ones are counted together.
const MAX_GROUPS: usize = 1_000;
/// The fewest characters of a hexadecimal word.
const HEXADECIMAL: usize = 8;

/// Failed jobs of one name, with one reason and like errors, from
/// [`FailedJobs::groups`](crate::FailedJobs::groups).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The name of the jobs.
    pub job: String,
    /// The reason.
    pub reason: FailedReason,
    /// The first line of their errors, at most 200 characters, with `#` for what differs from job
    /// to job: UUIDs, times, addresses with a port, hexadecimal words and numbers. Control
    /// characters are spaces, and no spaces are around it, so that it can be copied from where it
    /// is shown.
    pub error: String,
    /// How many jobs there are.
    pub count: u64,
    /// When the first of them failed.
    #[serde(with = "rfc3339")]
    pub first_at: SystemTime,
    /// When the last of them failed.
    #[serde(with = "rfc3339")]
    pub last_at: SystemTime,
    /// The id of the last one, as an example.
    pub last: JobId,
}

/// The groups of a queue's failed jobs, from [`FailedJobs::groups`](crate::FailedJobs::groups).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Groups {
    /// The groups, the largest first; at most 1,000.
    pub groups: Vec<Group>,
    /// Jobs in further groups.
    pub other: u64,
    /// Whether all failed jobs were looked at that there were at the beginning.
    pub complete: bool,
    /// The failed jobs that were looked at, for an operation on [no others](crate::admin::Operation::within).
    #[serde(skip)]
    pub extent: Option<Extent>,
}

impl Group {
    /// The group of a single job.
    pub(super) fn of(job: &FailedJob) -> Self {
        Self {
            job: job.name().to_owned(),
            reason: job.reason(),
            error: pattern(job.error()),
            count: 1,
            first_at: job.failed_at(),
            last_at: job.failed_at(),
            last: job.id(),
        }
    }

    fn add(&mut self, job: &FailedJob) {
        self.count += 1;
        self.first_at = self.first_at.min(job.failed_at());
        if job.failed_at() >= self.last_at {
            (self.last_at, self.last) = (job.failed_at(), job.id());
        }
    }
}

/// Sorts failed jobs into groups.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    groups: HashMap<(String, FailedReason, String), Group>,
    other: u64,
}

impl Grouping {
    pub(super) fn add(&mut self, job: &FailedJob) {
        let key = (job.name().to_owned(), job.reason(), pattern(job.error()));
        if let Some(group) = self.groups.get_mut(&key) {
            group.add(job);
        } else if self.groups.len() < MAX_GROUPS {
            self.groups.insert(key, Group::of(job));
        } else {
            self.other += 1;
        }
    }

    pub(super) fn groups(self, complete: bool, extent: Option<Extent>) -> Groups {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.sort_by(|one, other| {
            (other.count, &one.job, one.reason.as_str(), &one.error).cmp(&(
                one.count,
                &other.job,
                other.reason.as_str(),
                &other.error,
            ))
        });
        Groups { groups, other: self.other, complete, extent }
    }
}

/// The text by which errors are grouped: the first line, with `#` for what differs from job to job.
///
/// In this order: UUIDs, RFC 3339 times, addresses with a port, hexadecimal words of eight or more
/// characters with a letter, and runs of digits. The text is [plain].
pub(super) fn pattern(error: &str) -> String {
    let mut rest = error.lines().next().unwrap_or_default();
    let mut pattern = String::new();
    let mut previous = None;
    let mut length = 0;
    while let Some(first) = rest.chars().next()
        && length < MAX_CHARACTERS
    {
        let begins_word = !previous.is_some_and(is_word);
        let word = if begins_word { variable_word(rest) } else { None };
        let found = word.or_else(|| digits(rest));
        let taken = found.unwrap_or(first.len_utf8());
        pattern.push(if found.is_some() { '#' } else { first });
        previous = rest[..taken].chars().next_back();
        rest = &rest[taken..];
        length += 1;
    }
    plain(&pattern)
}

/// The text as it can be copied from a terminal or a page: with spaces in place of characters that
/// nobody sees, and without spaces around it.
pub(super) fn plain(text: &str) -> String {
    // Marks that reorder a line are not seen, either.
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_hidden, " ").trim().to_owned()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the word at the start of a text, if it differs from job to job.
fn variable_word(text: &str) -> Option<usize> {
    let ends = |length: &usize| !text[*length..].starts_with(is_word);
    [uuid, time, address, hexadecimal].into_iter().find_map(|read| read(text).filter(ends))
}

fn uuid(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let word = text.get(..LENGTH)?;
    Uuid::try_parse(word).ok().map(|_| LENGTH)
}

/// The form of a time up to its seconds; `0` stands for a digit.
const TO_SECONDS: &[u8] = b"0000-00-00T00:00:00";

/// A time as RFC 3339 has it.
fn time(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let matches = |pattern: &[u8], bytes: &[u8]| {
        bytes.len() >= pattern.len()
            && pattern.iter().zip(bytes).all(|(expected, byte)| match expected {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                other => other == byte,
            })
    };
    if !matches(TO_SECONDS, bytes) {
        return None;
    }
    let mut length = TO_SECONDS.len();
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(&text[length + 1..])?;
        length += 1 + fraction;
    }
    match bytes.get(length)? {
        b'Z' | b'z' => Some(length + 1),
        b'+' | b'-' if matches(b"00:00", &bytes[length + 1..]) => Some(length + 6),
        _ => None,
    }
}

/// An IPv4 address, an IPv6 address in brackets or a host name, with a port.
fn address(text: &str) -> Option<usize> {
    let host = if text.starts_with('[') {
        let end = text.find(']')?;
        text[1..end].parse::<std::net::Ipv6Addr>().ok()?;
        end + 1
    } else {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let end = text.find(|c| !is_part(c))?;
        // A word before a number, as in `line:7`, is no host.
        let host = &text[..end];
        let is_host = host.contains('.') || host == "localhost";
        if !is_host {
            return None;
        }
        end
    };
    let port = digits(text[host..].strip_prefix(':')?)?;
    (port <= 5).then_some(host + 1 + port)
}

/// A word of hexadecimal digits, at least one of them a letter.
fn hexadecimal(text: &str) -> Option<usize> {
    let start = if text.starts_with("0x") { 2 } else { 0 };
    let word = &text[start..];
    let length = word.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(word.len());
    let has_letter = word[..length].contains(|c: char| c.is_ascii_alphabetic());
    (length >= HEXADECIMAL && has_letter).then_some(start + length)
}

fn digits(text: &str) -> Option<usize> {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (length > 0).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Envelope, from_millis};

    #[test]
    fn what_differs_from_job_to_job_is_replaced() {
        for (error, expected) in [
            ("", ""),
            ("disk on fire", "disk on fire"),
            ("user 7 of 120", "user # of #"),
            ("first\nsecond 7", "first"),
            ("order 5b8ba4b4-9c8e-4b0f-9d5d-6a0b71f0c0de is gone", "order # is gone"),
            ("at 2026-11-26T10:00:00Z", "at #"),
            ("at 2026-11-26 10:00:00.123+01:00: no", "at #: no"),
            ("at 2026-11-26", "at #-#-#"),
            ("10.0.0.7:5432 refused", "# refused"),
            ("db.example.com:5432: refused", "#: refused"),
            ("[::1]:5432, localhost:80", "#, #"),
            ("main.rs:7", "#"),
            ("line:7", "line:#"),
            ("commit 0123abcdef and deadbeefcafe, facade", "commit # and #, facade"),
            ("at 0xdeadbeef", "at #"),
            ("abc1234 is short", "abc# is short"),
            ("x1y22z", "x#y#z"),
            ("größe 3µm", "größe #µm"),
            ("status=503;code=0012", "status=#;code=#"),
            ("[not an address]:7", "[not an address]:#"),
            (" no\tcard\u{1b}[1m \r", "no card [#m"),
            ("evil\u{202e}7", "evil #"),
        ] {
            assert_eq!(pattern(error), expected, "{error}");
        }
        assert_eq!(pattern(&"é".repeat(300)), "é".repeat(200));
        assert_eq!(pattern(&"7 ".repeat(300)), "# ".repeat(100).trim_end());
    }

    #[test]
    fn no_error_makes_it_panic() {
        let parts =
            ["é", "7", ":", "-", "[", "]", "0x", "T", "2026-11-26T10:00:00", ".", "a\u{301}"];
        for one in parts {
            for two in parts {
                for three in parts {
                    pattern(&[one, two, three].concat());
                }
            }
        }
    }

    fn job(name: &str, error: String, at: u64) -> FailedJob {
        let mut envelope = Envelope::new("mail", Vec::new());
        envelope.name = Some(name.to_owned().into());
        FailedJob::new(envelope, 1, FailedReason::Exhausted, error, from_millis(at))
    }

    #[test]
    fn like_errors_are_counted_together() {
        let mut grouping = Grouping::default();
        let last = job("greet", "user 9".into(), 9);
        for job in [&job("greet", "user 7".into(), 5), &last, &job("greet", "user 8".into(), 7)] {
            grouping.add(job);
        }
        grouping.add(&job("other", "user 7".into(), 1));
        let Groups { groups, other, complete, .. } = grouping.groups(true, None);
        assert_eq!((groups.len(), other, complete), (2, 0, true));
        assert_eq!((groups[0].count, groups[0].error.as_str()), (3, "user #"));
        assert_eq!((groups[0].first_at, groups[0].last_at), (from_millis(5), from_millis(9)));
        assert_eq!((groups[0].last, groups[1].job.as_str()), (last.id(), "other"));
    }

    #[test]
    fn a_thousand_groups_are_kept() {
        let mut grouping = Grouping::default();
        for number in 0..1_005_u32 {
            // Letters alone, since digits are replaced.
            let name: String = number.to_string().bytes().map(|b| char::from(b + 49)).collect();
            grouping.add(&job(&name, String::new(), 1));
        }
        grouping.add(&job("b", String::new(), 1));
        let Groups { groups, other, .. } = grouping.groups(false, None);
        assert_eq!((groups.len(), other, groups[0].count), (1_000, 5, 2));
    }
}
