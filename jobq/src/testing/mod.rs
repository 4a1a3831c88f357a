//! The test kit for programs that use jobq (feature `testing`).
//!
//! [`Jobs`] keeps the jobs of a test in memory, and runs them when the test says so, on a clock that
//! the test moves. The assertions show what a failed test found. `docs/testing.md` is the guide.
//!
//! ```
//! use jobq::testing::{Jobs, assert_enqueued};
//! use jobq::{BoxError, job};
//!
//! #[job(retries = 3, delay = "1d")]
//! async fn charge(order: u64) -> Result<(), BoxError> {
//!     Err(format!("order {order}: the bank is closed").into())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> jobq::Result<()> {
//! let jobs = Jobs::new().register::<Charge>().start().await;
//! jobs.client().enqueue(Charge { order: 7 }).await?;
//! assert_enqueued!(jobs, Charge { order: 7 });
//! let ran = jobs.advance("3d").await; // days of retries, at once
//! assert_eq!((ran.attempts().len(), jobs.failed::<Charge>().len()), (4, 1));
//! # Ok(())
//! # }
//! ```

mod builder;
mod during;
mod expect;
mod jobs;
mod macros;
mod memory;
mod paused;
mod ran;
mod run;

pub use crate::{assert_enqueued, assert_published, refute_enqueued, refute_published};
pub use builder::JobsBuilder;
pub use during::During;
pub use jobs::Jobs;
pub use memory::Memory;
pub use ran::{Attempted, Ran};
pub use run::RunJob;

/// Items used by the code of the macros. Not public API: it may change in any version.
#[doc(hidden)]
pub mod __private {
    pub use jobq_derive::expectation;

    pub use super::expect::{Compared, Entry, Expected, Record, Recorded, assert, refute, text};
}
