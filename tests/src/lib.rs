//! What the tests share: private RabbitMQ nodes and clusters, fresh files and namespaces, a scripted job,
//! a ledger of what was done.

pub mod account;
pub mod authority;
pub mod backwards;
pub mod broker;
pub mod cluster;
pub mod decisions;
pub mod declared;
pub mod earlier;
pub mod errand;
pub mod failures;
pub mod files;
pub mod flaky;
pub mod fragile;
mod greeting;
pub mod hardened;
pub mod increments;
pub mod jobs;
pub mod ledger;
pub mod measured;
pub mod network;
mod node;
pub mod patient;
mod place;
pub mod port;
pub mod proxy;
pub mod raw;
pub mod scraped;
pub mod seen;
pub mod spans;
pub mod stage;
pub mod timed;
pub mod vhost;
