//! Jobs of [jobq] inside transactions of PostgreSQL, by [`sea_orm`].
//!
//! * [`Within::within`] enqueues a job in a transaction: it exists if and only if the transaction
//!   commits.
//! * [`Once::once`] makes the effect of a job happen once: it commits together with a mark.
//!
//! The tables are those of [`jobq::outbox::postgres::MIGRATION`]. Run it with the tool that runs
//! your other migrations.
//!
//! A [relay](jobq::relay) sends the jobs to the engine. Its source is `PgOutbox` of the crate
//! `jobq-tokio-postgres`, which has connections of its own. The command `jobq relay` is a relay
//! without a program.
//!
//! End nested transactions in the reverse order of their `begin`. Version 2.0.4 of `sea_orm` ends
//! the innermost one, whichever is committed or rolled back.
//!
//! ```no_run
//! use jobq::{BoxError, Client, WorkerPool, job};
//! use jobq_sea_orm::Within;
//! use jobq_tokio_postgres::PgOutbox;
//! use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement, TransactionTrait};
//!
//! #[job(retries = 5, delay = "1m")]
//! async fn send_invoice(order: i64) -> Result<(), BoxError> {
//!     println!("the invoice of order {order}");
//!     Ok(())
//! }
//!
//! async fn place_order(db: &DatabaseConnection, client: &Client) -> Result<(), BoxError> {
//!     let tx = db.begin().await?;
//!     let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
//!     let row = tx.query_one_raw(Statement::from_string(DbBackend::Postgres, insert)).await?;
//!     let order = row.ok_or("no id")?.try_get_by_index(0)?;
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

mod errors;
mod once;
mod statements;
mod within;

pub use once::Once;
pub use within::Within;
