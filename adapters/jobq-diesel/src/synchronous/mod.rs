//! On the connection of diesel itself.

mod once;
mod within;

use diesel::PgConnection;
use diesel::connection::{AnsiTransactionManager, TransactionManager as _};
use diesel::query_dsl::methods::ExecuteDsl;
use jobq::Result;

use crate::errors::{check, failed};
use crate::statements::Statement;

pub use once::Once;
pub use within::Within;

/// The number of rows that a statement affects in a transaction.
fn execute(connection: &mut PgConnection, doing: &str, statement: impl Statement) -> Result<u64> {
    let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
    check(doing, status.transaction_depth())?;
    let rows = ExecuteDsl::execute(statement, connection);
    rows.map(|rows| rows as u64).map_err(|error| failed(doing, error))
}
