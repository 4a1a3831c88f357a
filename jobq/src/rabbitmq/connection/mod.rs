//! Connections: addresses, certificates, supervision, and the probes of their nodes.
//!
//! A [`link`] is a connection that reconnects by itself. Each established connection is an
//! [`epoch`]. The [`broker`] has the one for everything but consuming, and opens others.

pub(crate) mod address;
pub(crate) mod agreement;
pub(crate) mod alert;
pub(crate) mod broker;
pub(crate) mod channel;
pub(crate) mod connect_error;
pub(crate) mod epoch;
pub(crate) mod identity;
pub(crate) mod idle;
pub(crate) mod patience;
pub(crate) mod probe;
pub(crate) mod server_properties;
pub(crate) mod socket;
pub(crate) mod supervised;
#[cfg_attr(not(feature = "tls"), path = "without_tls.rs")]
pub(crate) mod tls;
