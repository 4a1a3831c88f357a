use jobq::outbox::Marked;
use jobq::{JobContext, Result};
use sqlx::{Database, Transaction};

use crate::tables::mark;

/// Makes the effects of a job happen once, on a connection of the type `C`.
///
/// ```no_run
/// use jobq::{BoxError, JobContext, State, job};
/// use jobq_sqlx::Once;
/// use sqlx::PgPool;
///
/// #[job(retries = 5)]
/// async fn pay(
///     account: i64,
///     cents: i64,
///     db: State<PgPool>,
///     ctx: JobContext,
/// ) -> Result<(), BoxError> {
///     let mut tx = db.begin().await?;
///     if ctx.once(&mut *tx, "pay").await?.is_first() {
///         let update = "UPDATE accounts SET cents = cents - $2 WHERE id = $1";
///         sqlx::query(update).bind(account).bind(cents).execute(&mut *tx).await?;
///     }
///     tx.commit().await?; // the payment and its mark, or neither
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a step cannot be marked in a `{C}`",
    note = "pass the connection of a transaction: `.once(&mut *tx, ..)`"
)]
pub trait Once<C> {
    /// Marks a step of the job as done, in this transaction, and tells whether that is the first
    /// time. The effect of the step belongs into the same transaction.
    ///
    /// If two attempts do the same step at once, the second one waits here for the end of the first
    /// transaction. A relay deletes marks after 30 days: a failed job that is retried later does
    /// its steps again.
    ///
    /// # Errors
    ///
    /// A step without 1 to 120 bytes; a connection on which [`begin`](sqlx::Connection::begin) or
    /// [`begin_with`](sqlx::Connection::begin_with) has begun no transaction; an error of the
    /// database, after which the attempt has to be repeated: return the error. If two attempts run at
    /// once, one of them may get a serialization failure (PostgreSQL, under `REPEATABLE READ` and
    /// `SERIALIZABLE`), a lock that is not released in time (SQLite, MariaDB), or a deadlock.
    fn once(&self, tx: &mut C, step: &str) -> impl Future<Output = Result<Marked>> + Send;
}

/// Marks a step in a transaction of this database.
macro_rules! once {
    ($connection:ty) => {
        impl Once<$connection> for JobContext {
            async fn once(&self, tx: &mut $connection, step: &str) -> Result<Marked> {
                mark(tx, &self.mark(step)?).await
            }
        }
    };
}

#[cfg(feature = "postgres")]
once!(sqlx::PgConnection);
#[cfg(feature = "sqlite")]
once!(sqlx::SqliteConnection);
#[cfg(feature = "mysql")]
once!(sqlx::MySqlConnection);

/// `&mut tx` is as good as `&mut *tx`.
impl<T: Once<DB::Connection>, DB: Database> Once<Transaction<'_, DB>> for T {
    fn once(
        &self,
        tx: &mut Transaction<'_, DB>,
        step: &str,
    ) -> impl Future<Output = Result<Marked>> + Send {
        self.once(&mut **tx, step)
    }
}
