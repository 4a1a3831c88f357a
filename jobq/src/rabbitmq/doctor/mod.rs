//! Looking for what weakens the promises of jobq: what is seen, and what it means.
//!
//! `diagnosis`, `policy`, `presence` and `role` are pure; `examine` and `management` look.

mod diagnosis;
mod examine;
mod facts;
#[cfg(feature = "management")]
mod management;
mod policy;
mod presence;
mod role;
mod sign;

pub(crate) use examine::Doctor;
#[cfg(feature = "management")]
pub(crate) use management::Management;
pub(crate) use sign::LimitedQueues;
