use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::expect::{Entry, Recorded};
use super::jobs::Jobs;

impl Jobs {
    /// Awaits a future, and returns its value with the jobs and events that were enqueued
    /// meanwhile, for assertions.
    ///
    /// ```
    /// # use jobq::testing::{Jobs, assert_enqueued, refute_enqueued};
    /// # use jobq::{BoxError, job};
    /// # #[job] async fn audit(what: String) -> Result<(), BoxError> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let jobs = Jobs::new().register::<Audit>().start().await;
    /// let new = jobs.during(jobs.client().enqueue(Audit { what: "login".into() })).await;
    /// assert_enqueued!(new, 1, Audit { .. });
    /// let id = new.value?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If another `during` is running: the jobs of the two could not be told apart.
    pub async fn during<F: IntoFuture>(&self, work: F) -> During<F::Output> {
        assert!(
            !self.has_interval.swap(true, Ordering::SeqCst),
            "two calls of `during` overlap, and their jobs cannot be told apart; await one before \
             the other, or give each a `Jobs` of its own"
        );
        let interval = Interval::begin(self);
        let value = work.into_future().await;
        interval.end(value)
    }
}

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
        self.jobs.has_interval.store(false, Ordering::SeqCst);
    }
}
