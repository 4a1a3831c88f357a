//! The macros of jobq. Use them through the `jobq` crate, which re-exports them.
