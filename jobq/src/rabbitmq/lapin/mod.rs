//! Workarounds for `lapin` and hooks into it. Its version is pinned, and
//! `tests/rabbitmq/upstream.rs` shows that it still does what is answered here.
//!
//! * [`depth`]: headers are kept shallow, since `lapin` reads lists and tables in each other by
//!   recursion without a limit.
//! * [`log`]: a question that a broker answers by closing the channel is no error in the log.

pub(crate) mod depth;
pub(crate) mod log;
