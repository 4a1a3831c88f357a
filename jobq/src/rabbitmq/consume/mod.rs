//! Consuming: deliveries, prefetch, acknowledgements and settlements.

pub(crate) mod acks;
pub(crate) mod consumer;
pub(crate) mod interruption;
pub(crate) mod live;
pub(crate) mod merge;
pub(crate) mod session;
pub(crate) mod settle;
