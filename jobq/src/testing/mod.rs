//! The test kit (feature `testing`): assertions about the jobs that a program enqueues and the
//! events that it publishes.

mod expect;
mod macros;

pub use crate::{assert_enqueued, assert_published, refute_enqueued, refute_published};

/// Items used by the code of the macros. Not public API: it may change in any version.
#[doc(hidden)]
pub mod __private {
    pub use jobq_derive::expectation;

    pub use super::expect::{
        Difference, Entry, Expected, Recorded, assert, differences, refute, text,
    };
}
