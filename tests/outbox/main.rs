//! Jobs of transactions: from a private PostgreSQL server through a relay to an engine.

// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

#[path = "../../adapters/jobq-tokio-postgres/tests/facts.rs"]
mod facts;
mod relay;
mod reports;
