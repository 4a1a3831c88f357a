//! What works around `lapin` or hooks into it.

pub(crate) mod cork;
pub(crate) mod depth;
pub(crate) mod log;
