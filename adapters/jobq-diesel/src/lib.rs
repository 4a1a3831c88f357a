//! Jobs of [jobq] inside transactions of PostgreSQL, by [`diesel`].
//!
//! * [`Within::within`] enqueues a job in a transaction: it exists if and only if the transaction
//!   commits.
//! * [`Once::once`] makes the effect of a job happen once: it commits together with a mark.
//!
//! Both are for [`diesel::PgConnection`], which links the library libpq (on Debian: `libpq-dev`).
//! The module `asynchronous` has both for `diesel-async`, without libpq. The features `sync`, which
//! is a default, and `async` select them.
//!
//! The tables are those of [`jobq::outbox::postgres::MIGRATION`]. Run it with the tool that runs
//! your other migrations.
//!
//! A [relay](jobq::relay) sends the jobs to the engine. Its source is `PgOutbox` of the crate
//! `jobq-tokio-postgres`, which has connections of its own and does not use libpq. The command
//! `jobq relay` is a relay as a process.
//!
//! ```no_run
//! use diesel::sql_types::BigInt;
//! use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, sql_query};
//! use jobq::{BoxError, Client, WorkerPool, job};
//! use jobq_diesel::Within;
//! use jobq_tokio_postgres::PgOutbox;
//!
//! #[job(retries = 5, delay = "1m")]
//! async fn send_invoice(order: i64) -> Result<(), BoxError> {
//!     println!("the invoice of order {order}");
//!     Ok(())
//! }
//!
//! #[derive(QueryableByName)]
//! struct Order {
//!     #[diesel(sql_type = BigInt)]
//!     id: i64,
//! }
//!
//! fn place_order(db: &mut PgConnection, client: &Client) -> Result<(), BoxError> {
//!     db.transaction(|connection| {
//!         let insert = sql_query("INSERT INTO orders DEFAULT VALUES RETURNING id");
//!         let order = insert.get_result::<Order>(connection)?.id;
//!         client.enqueue(SendInvoice { order }).within(connection)?;
//!         Ok(()) // both, or neither
//!     })
//! }
//!
//! # async fn work() -> Result<(), BoxError> {
//! let client = Client::connect("amqp://localhost").await?;
//! let outbox = PgOutbox::connect("postgres://shop:secret@db/shop").await?;
//! WorkerPool::new(&client).register::<SendInvoice>().relay(outbox).run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! The error of the closure takes errors of both crates. [`jobq::BoxError`] does, and so does an
//! enum of yours with `From<diesel::result::Error>` and `From<jobq::Error>`. [`jobq::Error`] alone
//! does not.
//!
//! Return an error of the database from the closure. PostgreSQL has ended the transaction then. If
//! the closure returns `Ok` all the same, so does diesel, but nothing is committed.
//!
//! diesel tells the code (`SQLSTATE`) of few errors. This crate finds out the codes of a missing
//! table, a wrong column and a missing right, in any language of the server, and a few others in
//! English. Any further error is [`Refused`](jobq::ErrorKind::Refused), with the message of
//! PostgreSQL.
//!
//! # A transaction that diesel forgets
//!
//! If the closure of a transaction panics, diesel 2.3 leaves the transaction open. The next
//! transaction of that connection is a savepoint in the open one: it returns `Ok`, but it never
//! commits. Nothing shows that to this crate. So take a connection from a pool for each
//! transaction: pools of diesel close such a connection.

#[cfg(not(any(feature = "sync", feature = "async")))]
compile_error!("jobq-diesel needs the feature `sync`, the feature `async`, or both");

#[cfg(feature = "async")]
pub mod asynchronous;
mod errors;
mod statements;
#[cfg(feature = "sync")]
mod synchronous;

#[cfg(feature = "sync")]
pub use synchronous::{Once, Within};
