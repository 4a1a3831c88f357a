//! Jobs of [jobq] inside transactions of PostgreSQL, by [`tokio_postgres`].
//!
//! * [`Within::within`] enqueues a job in a transaction: it exists if and only if the transaction
//!   commits.
//! * [`PgOutbox`] is the source of a [relay](jobq::relay), which sends such jobs to the engine. It
//!   also serves programs whose transactions are those of another library.
//! * [`Once::once`] makes the effect of a job happen once: it commits together with a mark.
//!
//! The tables are those of [`jobq::outbox::postgres::MIGRATION`]. Run it with the tool that runs your
//! other migrations.
//!
//! ```no_run
//! use jobq::{BoxError, Client, WorkerPool, job};
//! use jobq_tokio_postgres::{PgOutbox, Within};
//!
//! #[job(retries = 5, delay = "1m")]
//! async fn send_invoice(order: i64) -> Result<(), BoxError> {
//!     println!("the invoice of order {order}");
//!     Ok(())
//! }
//!
//! async fn place_order(
//!     db: &mut tokio_postgres::Client,
//!     client: &Client,
//! ) -> Result<(), BoxError> {
//!     let tx = db.transaction().await?;
//!     let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
//!     let order = tx.query_one(insert, &[]).await?.get(0);
//!     client.enqueue(SendInvoice { order }).within(&tx).await?;
//!     tx.commit().await?; // both, or neither
//!     Ok(())
//! }
//!
//! # async fn work() -> Result<(), BoxError> {
//! let client = Client::connect("amqp://localhost").await?;
//! let outbox = PgOutbox::connect("postgres://shop:secret@db/shop").await?;
//! WorkerPool::new(&client).register::<SendInvoice>().relay(outbox).run().await?;
//! # Ok(())
//! # }
//! ```

mod admin;
mod connections;
mod errors;
mod once;
mod outbox;
mod taken;
#[cfg(feature = "tls")]
mod tls;
mod within;

pub use admin::{ListedRow, Refused};
pub use once::Once;
pub use outbox::PgOutbox;
pub use within::Within;

/// The programs of the page compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/transactions.md")]
mod transactions {}
