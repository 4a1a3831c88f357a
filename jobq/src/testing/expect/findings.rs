//! Which jobs or events match.

use std::time::SystemTime;

use super::expected::{Compared, Kind};
use super::{Entry, Expected, Recorded};
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
    pub(super) verdict: Verdict,
}

pub(super) enum Verdict {
    Matches,
    /// It matches the pattern, and has run or is due too late.
    Unsuitable {
        has_run: bool,
        is_late: bool,
    },
    /// It matches the pattern, and not this guard.
    GuardIsFalse(&'static str),
    Differs,
    /// The payload is none of the type, for this reason.
    Unreadable(String),
}

impl<'e> Findings<'e> {
    pub(super) fn of(recorded: &impl Recorded, expected: &'e Expected<'_>) -> Self {
        let mut findings =
            Self { expected, now: recorded.now(), judged: Vec::new(), others: Vec::new() };
        let entries = match expected.kind {
            Kind::Job => recorded.jobs(),
            Kind::Event | Kind::Topic => recorded.events(),
        };
        for entry in entries {
            if entry.name == expected.name {
                let verdict = findings.verdict(&entry);
                findings.judged.push(Judged { entry, verdict });
            } else {
                findings.others.push(entry.name);
            }
        }
        findings
    }

    fn verdict(&self, entry: &Entry) -> Verdict {
        match (self.expected.check)(&entry.payload) {
            Err(error) => return Verdict::Unreadable(error),
            Ok(Compared::Differs) => return Verdict::Differs,
            Ok(Compared::GuardIsFalse(guard)) => return Verdict::GuardIsFalse(guard),
            Ok(Compared::Matches) => {}
        }
        let is_job = self.expected.kind == Kind::Job;
        let has_run = is_job && !entry.runs.is_empty();
        let is_late = is_job && self.limit().is_some_and(|limit| entry.due > limit);
        if has_run || is_late { Verdict::Unsuitable { has_run, is_late } } else { Verdict::Matches }
    }

    /// The time by which jobs have to be due.
    fn limit(&self) -> Option<SystemTime> {
        let period = period::parse(self.expected.within?).ok()?;
        self.now.checked_add(period)
    }

    pub(super) fn matches(&self) -> impl Iterator<Item = &Judged> {
        self.judged.iter().filter(|judged| matches!(judged.verdict, Verdict::Matches))
    }
}
