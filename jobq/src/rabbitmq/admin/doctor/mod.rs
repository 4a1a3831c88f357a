//! Examining a broker for settings that weaken jobq's guarantees: facts and findings.
//!
//! All is pure but `examine`, `listing` and `management`, which collect facts.

pub(crate) mod compare;
mod diagnosis;
mod examine;
pub(crate) mod facts;
mod leaders;
mod listing;
#[cfg(feature = "management")]
mod management;
mod policy;
mod presence;
pub(crate) mod role;
mod unseen;
mod waits;

pub(crate) use examine::{Doctor, Unseen};
pub(crate) use listing::Listing;
#[cfg(feature = "management")]
pub(crate) use management::Management;
