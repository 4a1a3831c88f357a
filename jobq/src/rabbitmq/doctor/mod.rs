//! Examining a broker for settings that weaken jobq's guarantees: facts and findings.
//!
//! `diagnosis`, `policy`, `presence` and `role` are pure; `examine`, `listing` and `management`
//! collect facts.

pub(crate) mod diagnosis;
mod examine;
pub(crate) mod facts;
mod listing;
#[cfg(feature = "management")]
mod management;
mod policy;
mod presence;
pub(crate) mod role;
mod sign;
mod waits;

pub(crate) use examine::Doctor;
pub(crate) use listing::Listing;
#[cfg(feature = "management")]
pub(crate) use management::Management;
pub(crate) use sign::LimitedQueues;
