use jobq::outbox::{Mark, Marked, postgres};
use jobq::{JobContext, Result};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::connections::execute;

/// Makes the effects of a job happen once.
///
/// ```no_run
/// use jobq::{BoxError, JobContext, State, job};
/// use jobq_tokio_postgres::Once;
/// use tokio::sync::Mutex;
///
/// #[job(retries = 5)]
/// async fn pay(
///     account: i64,
///     cents: i64,
///     db: State<Mutex<tokio_postgres::Client>>,
///     ctx: JobContext,
/// ) -> Result<(), BoxError> {
///     let mut db = db.lock().await;
///     let tx = db.transaction().await?;
///     if ctx.once(&tx, "pay").await?.is_first() {
///         let update = "UPDATE accounts SET cents = cents - $2 WHERE id = $1";
///         tx.execute(update, &[&account, &cents]).await?;
///     }
///     tx.commit().await?; // the payment and its mark, or neither
///     Ok(())
/// }
/// ```
pub trait Once {
    /// Marks a step of the job as done, in this transaction, and tells whether that is the first time.
    /// The effect of the step belongs into the same transaction.
    ///
    /// If two attempts do the same step at once, the second one waits here for the end of the first
    /// transaction. A relay deletes marks after 30 days: a failed job that is retried later does its
    /// steps again.
    ///
    /// # Errors
    ///
    /// A step without 1 to 120 bytes; an error of the database. Under `REPEATABLE READ` and
    /// `SERIALIZABLE`, two attempts at once give one of them a serialization failure (40001), after which
    /// the attempt has to be repeated: return the error.
    fn once(&self, tx: &Transaction<'_>, step: &str)
    -> impl Future<Output = Result<Marked>> + Send;
}

impl Once for JobContext {
    async fn once(&self, tx: &Transaction<'_>, step: &str) -> Result<Marked> {
        let Mark { namespace, queue, name, job_id, step, .. } = self.mark(step)?;
        let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
            (&namespace, Type::TEXT),
            (&queue, Type::TEXT),
            (&name, Type::TEXT),
            (&job_id, Type::TEXT),
            (&step, Type::TEXT),
        ];
        let marked = execute(tx, "marking a step", postgres::MARK, &parameters).await?;
        Ok(Marked::from_affected(marked))
    }
}
