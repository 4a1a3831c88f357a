use jobq::outbox::{Row, postgres};
use jobq::{Enqueue, EnqueueAll, EnqueueNamed, JobId, Publish, Result};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::connections::execute;

/// Enqueues and publishes in a transaction of the user's.
///
/// ```no_run
/// use jobq_tokio_postgres::Within;
///
/// # #[jobq::job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: jobq::Client, mut db: tokio_postgres::Client) -> Result<(), jobq::BoxError> {
/// let tx = db.transaction().await?;
/// client.enqueue(Remind { user_id: 7 }).delay("10m").within(&tx).await?;
/// client.publish("user.created", &7).within(&tx).await?;
/// client.enqueue_all((1..=1_000).map(|user_id| Remind { user_id })).within(&tx).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub trait Within {
    /// The id of the job or event, or the ids of many.
    type Ids;

    /// Writes the job into the table `jobq_outbox`. It is enqueued after the commit, by a
    /// [relay](jobq::relay). Neither the broker nor the file of jobq is used: they may be away.
    ///
    /// A delay counts from this call.
    ///
    /// # Errors
    ///
    /// As awaiting the call, as far as no broker is needed; settings that only make sense with one, such
    /// as `timeout`. Nothing was sent to the database then, and the transaction can go on. An error of
    /// the database ends the transaction, as for any other statement.
    fn within(self, tx: &Transaction<'_>) -> impl Future<Output = Result<Self::Ids>> + Send;
}

impl Within for Enqueue {
    type Ids = JobId;

    async fn within(self, tx: &Transaction<'_>) -> Result<JobId> {
        insert(tx, &self.row()?).await
    }
}

impl Within for EnqueueNamed {
    type Ids = JobId;

    async fn within(self, tx: &Transaction<'_>) -> Result<JobId> {
        insert(tx, &self.row()?).await
    }
}

impl Within for Publish {
    type Ids = JobId;

    async fn within(self, tx: &Transaction<'_>) -> Result<JobId> {
        insert(tx, &self.row()?).await
    }
}

/// An error of one job is returned before those after it are made. The transaction has those before it,
/// so roll it back.
impl Within for EnqueueAll<'_> {
    type Ids = Vec<JobId>;

    async fn within(self, tx: &Transaction<'_>) -> Result<Vec<JobId>> {
        let mut ids = Vec::new();
        for row in self.rows()? {
            ids.push(insert(tx, &row?).await?);
        }
        Ok(ids)
    }
}

async fn insert(tx: &Transaction<'_>, row: &Row) -> Result<JobId> {
    let parameters: [(&(dyn ToSql + Sync), Type); 14] = [
        (&row.version, Type::INT8),
        (&row.namespace, Type::TEXT),
        (&row.queue, Type::TEXT),
        (&row.topic, Type::TEXT),
        (&row.name, Type::TEXT),
        (&row.job_id, Type::TEXT),
        (&row.enqueued_at, Type::INT8),
        (&row.due_at, Type::INT8),
        (&row.expires_at, Type::INT8),
        (&row.retry_wait, Type::INT8),
        (&row.content_encoding, Type::TEXT),
        (&row.enqueued_by, Type::TEXT),
        (&row.headers, Type::TEXT),
        (&row.payload, Type::BYTEA),
    ];
    execute(tx, "writing a row of jobq_outbox", postgres::INSERT, &parameters).await?;
    row.job_id.parse()
}
