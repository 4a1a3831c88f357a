//! Workarounds for `lapin` and hooks into it. Its version is pinned, and
//! `tests/rabbitmq/upstream.rs` shows that they are still needed.
//!
//! * [`depth`]: flattens deep headers, since `lapin` parses lists and tables recursively.
//! * [`log`]: drops errors of expected refusals from the log.

pub(crate) mod depth;
pub(crate) mod log;
