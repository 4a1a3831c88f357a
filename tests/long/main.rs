//! Jobs that take long: longer than the broker lets a worker hold them, and longer than
//! their thread can be spared.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod blocking;
mod timeouts;
