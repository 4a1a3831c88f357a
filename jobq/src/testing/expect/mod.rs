//! What the assertion macros expand to: which jobs or events match, and the failure if they are
//! not those expected.

mod expected;
mod findings;
mod report;
#[cfg(test)]
mod tests;
mod text;

use std::panic::Location;
use std::time::SystemTime;

pub use expected::{Compared, Expected};
use findings::Findings;
pub use text::text;

/// The jobs and events that a test has recorded.
#[diagnostic::on_unimplemented(
    message = "`{Self}` records no jobs",
    label = "not the jobs of a test",
    note = "the first argument is the `jobq::testing::Jobs` of the test, or what its `during` returns"
)]
pub trait Recorded {
    /// All of them until now.
    fn record(&self) -> Record;
}

#[diagnostic::do_not_recommend]
impl<R: Recorded + ?Sized> Recorded for &R {
    fn record(&self) -> Record {
        (**self).record()
    }
}

/// The record of a test.
#[derive(Debug, Clone)]
pub struct Record {
    /// The time of the test.
    pub now: SystemTime,
    /// All enqueued jobs, those that have run included, in order.
    pub jobs: Vec<Entry>,
    /// All published events, in order.
    pub events: Vec<Entry>,
}

/// An enqueued job or a published event.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name of the job, or the topic of the event.
    pub name: String,
    /// The JSON.
    pub payload: Vec<u8>,
    /// The line that enqueued or published it.
    pub place: Option<&'static Location<'static>>,
    /// When the job is due. Assertions on events ignore it.
    pub due: SystemTime,
    /// The attempts of the job so far, such as `attempt 1 completed`. Assertions on events ignore
    /// them.
    pub runs: Vec<String>,
}

/// Asserts what is expected.
///
/// # Panics
///
/// If another number matches.
#[track_caller]
pub fn assert(jobs: &impl Recorded, expected: &Expected<'_>) {
    fail(Findings::of(jobs, expected).assertion());
}

/// Asserts that nothing matches.
///
/// # Panics
///
/// If something does.
#[track_caller]
pub fn refute(jobs: &impl Recorded, expected: &Expected<'_>) {
    fail(Findings::of(jobs, expected).refutation());
}

#[track_caller]
fn fail(failure: Option<String>) {
    if let Some(text) = failure {
        panic!("{text}");
    }
}
