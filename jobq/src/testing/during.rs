use std::time::SystemTime;

use super::expect::{Entry, Recorded};
use super::jobs::Jobs;

/// The value of a future, and what was enqueued and published while it was awaited: see
/// [`Jobs::during`]. The assertions take it in place of [`Jobs`].
#[derive(Debug, Clone)]
pub struct During<T> {
    /// The value of the future.
    pub value: T,
    now: SystemTime,
    jobs: Vec<Entry>,
    events: Vec<Entry>,
}

impl<T> Recorded for During<T> {
    fn now(&self) -> SystemTime {
        self.now
    }

    fn jobs(&self) -> Vec<Entry> {
        self.jobs.clone()
    }

    fn events(&self) -> Vec<Entry> {
        self.events.clone()
    }
}

/// An interval that runs. Dropping it ends it.
pub(super) struct Interval<'j> {
    jobs: &'j Jobs,
    /// The numbers of jobs and events before it.
    before: (usize, usize),
}

impl<'j> Interval<'j> {
    pub(super) fn begin(jobs: &'j Jobs) -> Self {
        Self { jobs, before: (jobs.jobs().len(), jobs.events().len()) }
    }

    pub(super) fn end<T>(self, value: T) -> During<T> {
        let (jobs, events) = self.before;
        During {
            value,
            now: self.jobs.now(),
            jobs: self.jobs.jobs().split_off(jobs),
            events: self.jobs.events().split_off(events),
        }
    }
}

impl Drop for Interval<'_> {
    fn drop(&mut self) {
        self.jobs.end_interval();
    }
}
