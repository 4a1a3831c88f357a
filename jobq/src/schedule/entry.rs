//! A schedule in the book, with its next deadline. Pure.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::change;
use super::deadlines::{Deadline, Deadlines};
use super::report::ScheduleReport;
use super::spec::Spec;
use crate::error::Result;
use crate::job::from_millis;

/// A schedule as the list has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    #[serde(flatten)]
    pub(super) spec: Spec,
    /// The program that last changed it.
    pub(super) by: String,
    /// It has no deadlines up to this time.
    pub(super) after_ms: u64,
    /// When a pool last named it, if it is part of code.
    #[serde(default)]
    pub(super) named_ms: Option<u64>,
    #[serde(default)]
    pub(super) paused: Option<Paused>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Paused {
    pub(super) since_ms: u64,
    pub(super) by: String,
}

/// A schedule with its deadlines.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) kept: Kept,
    /// The bytes of the list that it takes.
    pub(super) size: usize,
    /// The error if this version or this machine cannot tell them.
    pub(super) deadlines: Result<Deadlines>,
    pub(super) next: Option<Deadline>,
    /// Why the last job was not enqueued.
    pub(super) problem: Option<String>,
}

impl Entry {
    pub(super) fn new(queue: &str, kept: Kept, until: Option<SystemTime>) -> Self {
        let (size, deadlines) = (change::write(&kept).len(), kept.spec.deadlines(queue));
        let mut entry = Self { kept, size, deadlines, next: None, problem: None };
        entry.find_next(entry.from(until));
        entry
    }

    /// The time up to which its deadlines are dealt with.
    pub(super) fn from(&self, until: Option<SystemTime>) -> SystemTime {
        let after = from_millis(self.kept.after_ms);
        until.map_or(after, |until| until.max(after))
    }

    pub(super) fn find_next(&mut self, after: SystemTime) {
        let deadlines = self.deadlines.as_ref().ok();
        let active = deadlines.filter(|_| self.kept.paused.is_none());
        self.next = active.and_then(|deadlines| deadlines.next(after));
    }

    pub(super) fn report(&self, queue: &str, until: Option<SystemTime>) -> ScheduleReport {
        let Kept { spec, by, after_ms, named_ms, paused } = &self.kept;
        let mut report = ScheduleReport::new(queue, spec);
        report.in_code = named_ms.is_some();
        report.by.clone_from(by);
        report.paused = paused.as_ref().map(|paused| from_millis(paused.since_ms));
        report.paused_by = paused.as_ref().map(|paused| paused.by.clone());
        let deadlines = self.deadlines.as_ref();
        let last = deadlines.ok().zip(until);
        report.last = last.and_then(|(deadlines, until)| {
            let until = report.paused.map_or(until, |paused| until.min(paused));
            deadlines.last(from_millis(*after_ms), until, 1).pop()
        });
        let unknown = deadlines.err().map(ToString::to_string);
        report.problem = unknown.or_else(|| self.problem.clone());
        report
    }
}
