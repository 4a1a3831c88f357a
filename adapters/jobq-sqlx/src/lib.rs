//! Jobs of [jobq] inside transactions of PostgreSQL, SQLite, MariaDB and MySQL, by [`sqlx`].
//!
//! * [`Within::within`] enqueues a job in a transaction: it exists if and only if the transaction
//!   commits.
//! * [`Once::once`] makes the effect of a job happen once: it commits together with a mark.
//!
//! Each database is a feature. A [relay](jobq::relay) sends the jobs to the engine.
//!
//! | feature | database | migration | source of the relay |
//! |---|---|---|---|
//! | `postgres` (default) | PostgreSQL 12 | [`postgres::MIGRATION`] | `PgOutbox` of `jobq-tokio-postgres` |
//! | `sqlite` | SQLite 3.37 | [`sqlite::MIGRATION`] | `SqliteOutbox` |
//! | `mysql` | MariaDB 10.6, MySQL 8.0 | [`mysql::MIGRATION`] | `MySqlOutbox` |
//!
//! Run the migration with the tool that runs your other migrations.
//!
//! [`postgres::MIGRATION`]: jobq::outbox::postgres::MIGRATION
//! [`sqlite::MIGRATION`]: jobq::outbox::sqlite::MIGRATION
//! [`mysql::MIGRATION`]: jobq::outbox::mysql::MIGRATION
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

#[cfg(not(any(feature = "postgres", feature = "sqlite", feature = "mysql")))]
compile_error!("jobq-sqlx needs one of its features `postgres`, `sqlite` and `mysql`");

#[cfg(feature = "relay")]
mod connections;
#[cfg(feature = "relay")]
mod dialect;
mod errors;
#[cfg(feature = "mysql")]
mod mysql;
mod once;
#[cfg(feature = "relay")]
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "relay")]
mod statement;
mod tables;
mod within;

#[cfg(feature = "mysql")]
pub use mysql::MySqlOutbox;
pub use once::Once;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteOutbox;
pub use within::Within;
