//! Connections: addresses, certificates, supervision, and the probe of a node that fell silent.
//!
//! A [`link`] is one connection that comes back by itself; each time that it is established is an
//! [`epoch`]. The [`broker`] holds the one for everything but consuming, and opens further ones.

pub(crate) mod address;
pub(crate) mod alert;
pub(crate) mod broker;
pub(crate) mod channel;
pub(crate) mod connect_error;
pub(crate) mod epoch;
pub(crate) mod link;
pub(crate) mod probe;
pub(crate) mod server_properties;
pub(crate) mod socket;
#[cfg_attr(not(feature = "tls"), path = "without_tls.rs")]
pub(crate) mod tls;
