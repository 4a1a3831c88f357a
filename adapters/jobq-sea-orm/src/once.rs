use jobq::outbox::Marked;
use jobq::{JobContext, Result};
use sea_orm::DatabaseTransaction;

use crate::statements::mark;

/// Makes the effects of a job happen once.
///
/// ```no_run
/// use jobq::{BoxError, JobContext, State, job};
/// use jobq_sea_orm::Once;
/// use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement, TransactionTrait};
///
/// #[job(retries = 5)]
/// async fn pay(
///     account: i64,
///     cents: i64,
///     db: State<DatabaseConnection>,
///     ctx: JobContext,
/// ) -> Result<(), BoxError> {
///     let tx = db.begin().await?;
///     if ctx.once(&tx, "pay").await?.is_first() {
///         let update = "UPDATE accounts SET cents = cents - $2 WHERE id = $1";
///         let values = [account.into(), cents.into()];
///         let update = Statement::from_sql_and_values(DbBackend::Postgres, update, values);
///         tx.execute_raw(update).await?;
///     }
///     tx.commit().await?; // the payment and its mark, or neither
///     Ok(())
/// }
/// ```
pub trait Once {
    /// Marks a step of the job as done, in this transaction, and tells whether that is the first
    /// time. The effect of the step belongs into the same transaction.
    ///
    /// If two attempts do the same step at once, the second one waits here for the end of the first
    /// transaction. A relay deletes marks after 30 days: a failed job that is retried later does
    /// its steps again.
    ///
    /// # Errors
    ///
    /// A step without 1 to 120 bytes; a database that is not PostgreSQL; a transaction that
    /// [has ended](crate::Within::within); an error of the database. Under `REPEATABLE READ`
    /// and `SERIALIZABLE`, two attempts at once give one of them a serialization failure (40001),
    /// after which the attempt has to be repeated: return the error.
    fn once(
        &self,
        tx: &DatabaseTransaction,
        step: &str,
    ) -> impl Future<Output = Result<Marked>> + Send;
}

impl Once for JobContext {
    async fn once(&self, tx: &DatabaseTransaction, step: &str) -> Result<Marked> {
        mark(tx, self.mark(step)?).await
    }
}
