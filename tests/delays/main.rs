//! Waits of any length: none early, none lost, and none that makes a job grow.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod headers;
mod length;
mod outage;
