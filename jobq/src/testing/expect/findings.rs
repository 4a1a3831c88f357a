//! Which jobs or events match.

use std::time::SystemTime;

use super::expected::{Compared, Kind};
use super::{Entry, Expected, Record, Recorded};
use crate::period;

/// What an assertion finds.
pub(super) struct Findings<'e> {
    pub(super) expected: &'e Expected<'e>,
    pub(super) now: SystemTime,
    /// The jobs or events of the name in question.
    pub(super) judged: Vec<Judged>,
    /// The names of all others.
    pub(super) others: Vec<String>,
}

pub(super) struct Judged {
    pub(super) entry: Entry,
    pub(super) matches: bool,
    /// Whether it matches and why not, unless its JSON says that.
    pub(super) verdict: Option<String>,
}

impl<'e> Findings<'e> {
    pub(super) fn of(recorded: &impl Recorded, expected: &'e Expected<'_>) -> Self {
        let Record { now, jobs, events } = recorded.record();
        let entries = if expected.kind == Kind::Job { jobs } else { events };
        let mut findings = Self { expected, now, judged: Vec::new(), others: Vec::new() };
        for entry in entries {
            if entry.name == expected.name {
                findings.judged.push(findings.judge(entry));
            } else {
                findings.others.push(entry.name);
            }
        }
        findings
    }

    fn judge(&self, entry: Entry) -> Judged {
        let (matches, verdict) = match (self.expected.check)(&entry.payload) {
            Err(error) => (false, Some(format!("payload cannot be read: {error}"))),
            Ok(Compared::GuardIsFalse(guard)) => {
                (false, Some(format!("the guard `{guard}` is false")))
            }
            Ok(Compared::Differs) => (false, None),
            Ok(Compared::Matches) => match self.unsuitable(&entry) {
                Some(reasons) => (false, Some(format!("matches, but {reasons}"))),
                None => (true, Some("matches".to_owned())),
            },
        };
        Judged { entry, matches, verdict }
    }

    /// The reasons for which a job that matches the pattern is not one that is expected.
    fn unsuitable(&self, entry: &Entry) -> Option<String> {
        if self.expected.kind != Kind::Job {
            return None;
        }
        let late = self.expected.within.filter(|period| {
            // The time by which jobs have to be due.
            let limit = period::parse(period).ok().and_then(|period| self.now.checked_add(period));
            limit.is_some_and(|limit| entry.due > limit)
        });
        let late = late.map(|period| format!("is not due within {period}"));
        join([late, (!entry.runs.is_empty()).then(|| "has run already".to_owned())], " and ")
    }

    pub(super) fn matches(&self) -> impl Iterator<Item = &Judged> {
        self.judged.iter().filter(|judged| judged.matches)
    }
}

pub(super) fn join(parts: [Option<String>; 2], separator: &str) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(separator))
}
