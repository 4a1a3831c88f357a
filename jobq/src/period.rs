//! The text form of a duration: `"250ms"`, `"30s"`, `"10m"`, `"1h 30m"`, `"2d"`.

pub(crate) use jobq_names::period::millis;
pub use jobq_names::period::{MAX, PeriodError, format, parse};
