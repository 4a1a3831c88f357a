use diesel_async::AsyncPgConnection;
use jobq::outbox::Marked;
use jobq::{JobContext, Result};

use super::execute;
use crate::statements::{MARKING, mark};

/// Makes the effects of a job happen once.
///
/// ```no_run
/// use diesel::sql_query;
/// use diesel::sql_types::BigInt;
/// use diesel_async::pooled_connection::deadpool::Pool;
/// use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
/// use jobq::{BoxError, JobContext, State, job};
/// use jobq_diesel::asynchronous::Once;
///
/// #[job(retries = 5)]
/// async fn pay(
///     account: i64,
///     cents: i64,
///     db: State<Pool<AsyncPgConnection>>,
///     ctx: JobContext,
/// ) -> Result<(), BoxError> {
///     let mut db = db.get().await?;
///     db.transaction(async |connection| {
///         if ctx.once(connection, "pay").await?.is_first() {
///             let update = "UPDATE accounts SET cents = cents - $2 WHERE id = $1";
///             let update = sql_query(update).bind::<BigInt, _>(account);
///             update.bind::<BigInt, _>(cents).execute(connection).await?;
///         }
///         Ok(()) // the payment and its mark, or neither
///     })
///     .await
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
    /// A step without 1 to 120 bytes; a connection on which diesel has begun no transaction; an
    /// error of the database. Under `REPEATABLE READ` and `SERIALIZABLE`, two attempts at once give
    /// one of them a serialization failure (40001), after which the attempt has to be repeated:
    /// return the error.
    fn once(
        &self,
        connection: &mut AsyncPgConnection,
        step: &str,
    ) -> impl Future<Output = Result<Marked>> + Send;
}

impl Once for JobContext {
    async fn once(&self, connection: &mut AsyncPgConnection, step: &str) -> Result<Marked> {
        let marked = execute(connection, MARKING, mark(&self.mark(step)?)).await?;
        Ok(Marked::from_affected(marked))
    }
}
