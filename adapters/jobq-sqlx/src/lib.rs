//! Jobs of [jobq] inside transactions of PostgreSQL, by [`sqlx`].
//!
//! * [`Within::within`] enqueues a job in a transaction: it exists if and only if the transaction
//!   commits.
//! * [`Once::once`] makes the effect of a job happen once: it commits together with a mark.
//!
//! The tables are those of [`jobq::outbox::postgres::MIGRATION`]. Run it with the tool that runs
//! your other migrations.
//!
//! A [relay](jobq::relay) sends the jobs to the engine. Its source is `PgOutbox` of the crate
//! `jobq-tokio-postgres`, which has connections of its own.
//!
//! ```no_run
//! use jobq::{BoxError, Client, WorkerPool, job};
//! use jobq_sqlx::Within;
//! use jobq_tokio_postgres::PgOutbox;
//! use sqlx::PgPool;
//!
//! #[job(retries = 5, delay = "1m")]
//! async fn send_invoice(order: i64) -> Result<(), BoxError> {
//!     println!("the invoice of order {order}");
//!     Ok(())
//! }
//!
//! async fn place_order(db: &PgPool, client: &Client) -> Result<(), BoxError> {
//!     let mut tx = db.begin().await?;
//!     let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
//!     let order = sqlx::query_scalar(insert).fetch_one(&mut *tx).await?;
//!     client.enqueue(SendInvoice { order }).within(&mut *tx).await?;
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
