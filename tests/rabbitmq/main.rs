//! jobq on real RabbitMQ nodes: what it declares, what comes over the wire, and nodes and
//! connections that fail.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod connections;
mod credentials;
mod delays;
mod deleted;
mod doctor;
mod failed;
mod foreign;
mod full;
mod hardened;
mod incomplete;
mod lazy;
mod limits;
mod long_job;
mod nodes;
mod operations;
mod oversize;
mod pause;
mod permissions;
mod protocols;
mod reconnect;
mod redelivery;
mod seats;
mod secrets;
mod timeouts;
mod tls;
mod topics;
mod topology;
mod traps;
mod upstream;
mod waiting;
mod waits;
