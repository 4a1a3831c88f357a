//! The same for [`AsyncPgConnection`] of [`diesel_async`].
//!
//! Import the traits of one kind into a module, not those of both: their methods have the same
//! names.
//!
//! ```no_run
//! use diesel::sql_query;
//! use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
//! use jobq::{BoxError, Client, job};
//! use jobq_diesel::asynchronous::Within;
//!
//! # #[job] async fn greet(user: u64) -> Result<(), BoxError> { Ok(()) }
//! async fn sign_up(db: &mut AsyncPgConnection, client: &Client) -> Result<(), BoxError> {
//!     db.transaction(async |connection| {
//!         sql_query("INSERT INTO users VALUES (7)").execute(connection).await?;
//!         client.enqueue(Greet { user: 7 }).within(connection).await?;
//!         Ok(()) // both, or neither
//!     })
//!     .await
//! }
//! ```
//!
//! # A transaction that diesel forgets
//!
//! If the future of a transaction is dropped, as at a timeout, diesel-async 0.9 leaves the
//! transaction open. The next transaction of that connection is a savepoint in the open one: it
//! returns `Ok`, but it never commits. Nothing shows that to this crate. A job's function is
//! dropped at its timeout, too. So take a connection from a pool for each transaction: pools of
//! diesel-async close such a connection.
//!
//! Do not end a transaction by a statement of yours, such as `ROLLBACK`. diesel-async does not
//! notice that, and each further statement commits by itself.

mod once;
mod within;

use diesel_async::methods::ExecuteDsl;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, TransactionManager as _};
use jobq::Result;

use crate::errors::{check, failed};
use crate::statements::Statement;

pub use once::Once;
pub use within::Within;

/// The number of rows that a statement affects in a transaction.
async fn execute(
    connection: &mut AsyncPgConnection,
    doing: &str,
    statement: impl Statement,
) -> Result<u64> {
    let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
    check(doing, status.transaction_depth())?;
    let rows = ExecuteDsl::execute(statement, connection).await;
    rows.map(|rows| rows as u64).map_err(|error| failed(doing, error))
}
