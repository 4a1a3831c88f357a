//! Relays: they enqueue the jobs that transactions have left in a table.
//!
//! A relay takes rows from a [`Source`], sends them to the engine of a client, and deletes them when the
//! engine has stored them. If it is killed in between, the next one sends the last batch again, under the
//! same ids: nothing that was committed is lost, and what is sent twice is at most one batch.
//!
//! Run it beside a pool, by [`WorkerPool::relay`](crate::WorkerPool::relay), or in a process of its own:
//!
//! ```no_run
//! # async fn example(outbox: impl jobq::relay::Source) -> jobq::Result<()> {
//! use jobq::Client;
//! use jobq::relay::Relay;
//!
//! let client = Client::connect("amqp://localhost").await?;
//! Relay::new(&client, outbox).run_until(jobq::shutdown_signal()?).await
//! # }
//! ```
//!
//! Any number of relays may run on one table; one of them works, and another one takes over when it
//! ends. Rows of one transaction are sent in their order. Rows of different transactions may overtake
//! one another.
//!
//! A row that cannot be sent (its queue does not exist, the broker refuses it, it is no job) keeps its
//! error, blocks no other row, and is tried again: after 5 seconds, and later every 10 minutes.

mod cursor;
mod health;
mod queues;
mod running;
mod sending;
mod source;
mod turn;

pub(crate) use health::Board;
pub use health::{RelayHealth, RelayState};
pub(crate) use running::Task;
pub use running::{Relay, RunningRelay};
pub use source::{Backlog, Refusal, Settled, Source, StoredRow, Take, Taken, Taking};
