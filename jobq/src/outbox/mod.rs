//! Jobs that are enqueued inside a transaction of your database, and effects that happen once in it.
//!
//! `docs/transactions.md` in the repository leads through both. The crates `jobq-tokio-postgres`,
//! `jobq-sqlx`, `jobq-diesel` and `jobq-sea-orm` do it for their libraries. With any other library, this
//! module has the statements and their parameters, for [PostgreSQL](postgres), [SQLite](sqlite), and
//! [MariaDB and MySQL](mysql):
//!
//! * [`Enqueue::row`](crate::Enqueue::row) makes a [`Row`] of the table `jobq_outbox`. Insert it in your
//!   transaction by [`postgres::INSERT`] or its like. A [relay](crate::relay) enqueues the job after the
//!   commit.
//! * [`JobContext::mark`](crate::JobContext::mark) makes a [`Mark`] of the table `jobq_inbox`. Insert it
//!   by [`postgres::MARK`] or its like together with an effect, which then happens once.
//!
//! `docs/outbox.md` describes the tables for programs that write them without jobq.

mod content;
mod errors;
mod mark;
pub mod mysql;
pub mod postgres;
mod question_marks;
mod row;
pub mod sqlite;

pub(crate) use content::{Content, no_priorities, retry_in, too_large};
pub use mark::{Mark, Marked};
pub use row::Row;
