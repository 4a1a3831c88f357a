use jobq::{Enqueue, EnqueueAll, EnqueueNamed, JobId, Publish, Result};
use sea_orm::DatabaseTransaction;

use crate::statements::{INSERTING, check, insert};

/// Enqueues and publishes in a transaction of the user's.
///
/// ```no_run
/// use jobq_sea_orm::Within;
/// use sea_orm::{DatabaseConnection, TransactionTrait};
///
/// # #[jobq::job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: jobq::Client, db: DatabaseConnection) -> Result<(), jobq::BoxError> {
/// let tx = db.begin().await?;
/// client.enqueue(Remind { user_id: 7 }).delay("10m").within(&tx).await?;
/// client.publish("user.created", &7).within(&tx).await?;
/// client.enqueue_all((1..=1_000).map(|user_id| Remind { user_id })).within(&tx).await?;
/// tx.commit().await?;
///
/// // Or in a closure, at whose end the transaction commits.
/// db.transaction(|tx| {
///     Box::pin(async move { client.enqueue(Remind { user_id: 7 }).within(tx).await })
/// })
/// .await?;
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
    /// As awaiting the call, as far as no broker is needed; settings that only make sense with one,
    /// such as `timeout`; a database that is not PostgreSQL. Nothing was sent to the database then,
    /// and the transaction can go on. An error of the database ends the transaction, as for any
    /// other statement.
    ///
    /// A transaction that has ended is an error, too. In version 2.0.4 of `sea_orm`, a nested
    /// [`begin`](sea_orm::TransactionTrait::begin) ends the outer transaction if it fails or if its
    /// future is dropped. Each further statement would commit by itself. So a call first asks the
    /// database whether the transaction is open.
    fn within(self, tx: &DatabaseTransaction) -> impl Future<Output = Result<Self::Ids>> + Send;
}

impl Within for Enqueue {
    type Ids = JobId;

    async fn within(self, tx: &DatabaseTransaction) -> Result<JobId> {
        let row = self.row()?;
        check(tx, INSERTING).await?;
        insert(tx, row).await
    }
}

impl Within for EnqueueNamed {
    type Ids = JobId;

    async fn within(self, tx: &DatabaseTransaction) -> Result<JobId> {
        let row = self.row()?;
        check(tx, INSERTING).await?;
        insert(tx, row).await
    }
}

impl Within for Publish {
    type Ids = JobId;

    async fn within(self, tx: &DatabaseTransaction) -> Result<JobId> {
        let row = self.row()?;
        check(tx, INSERTING).await?;
        insert(tx, row).await
    }
}

/// Each job is a statement. An error of one job is returned before those after it are made. The
/// transaction has those before it, so roll it back.
impl Within for EnqueueAll<'_> {
    type Ids = Vec<JobId>;

    async fn within(self, tx: &DatabaseTransaction) -> Result<Vec<JobId>> {
        let mut ids = Vec::new();
        for row in self.rows()? {
            let row = row?;
            if ids.is_empty() {
                check(tx, INSERTING).await?;
            }
            ids.push(insert(tx, row).await?);
        }
        Ok(ids)
    }
}
