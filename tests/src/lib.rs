//! What the tests share: private RabbitMQ nodes and clusters, fresh files and namespaces, a scripted job,
//! a ledger of what was done.

pub mod account;
pub mod authority;
pub mod broker;
pub mod cluster;
pub mod decisions;
pub mod declared;
pub mod earlier;
pub mod failures;
pub mod files;
mod greeting;
pub mod hardened;
pub mod increments;
pub mod issuer;
pub mod jobs;
pub mod late_confirms_proxy;
pub mod late_consumers_proxy;
pub mod ledger;
pub mod log_capture;
pub mod measured;
pub mod network;
mod node;
mod place;
pub mod port;
pub mod proxy;
pub mod raw;
pub mod scraped;
pub mod spans;
pub mod test_store;
pub mod vhost;
