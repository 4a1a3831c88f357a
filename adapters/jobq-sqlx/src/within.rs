use jobq::{Enqueue, EnqueueAll, EnqueueNamed, JobId, Publish, Result};
use sqlx::{Database, Transaction};

use crate::tables::{insert, insert_all};

/// Enqueues and publishes in a transaction of the user's, on a connection of the type `C`.
///
/// ```no_run
/// use jobq_sqlx::Within;
///
/// # #[jobq::job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: jobq::Client, db: sqlx::PgPool) -> Result<(), jobq::BoxError> {
/// let mut tx = db.begin().await?;
/// client.enqueue(Remind { user_id: 7 }).delay("10m").within(&mut *tx).await?;
/// client.publish("user.created", &7).within(&mut *tx).await?;
/// client.enqueue_all((1..=1_000).map(|user_id| Remind { user_id })).within(&mut *tx).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be enqueued within a `{C}`",
    note = "pass the connection of a transaction: `.within(&mut *tx)`"
)]
pub trait Within<C> {
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
    /// such as `timeout`; a connection on which [`begin`](sqlx::Connection::begin) or
    /// [`begin_with`](sqlx::Connection::begin_with) has begun no transaction. Nothing was written
    /// then, and a transaction can go on. After an error of the database, roll the transaction back.
    fn within(self, tx: &mut C) -> impl Future<Output = Result<Self::Ids>> + Send;
}

/// Writes into the tables in a transaction of this database.
macro_rules! within {
    ($connection:ty) => {
        within!($connection: Enqueue, EnqueueNamed, Publish);

        /// A statement takes up to 500 rows. An error of one job is returned before those after it are
        /// made. The transaction may have some of those before it, so roll it back.
        impl Within<$connection> for EnqueueAll<'_> {
            type Ids = Vec<JobId>;

            async fn within(self, tx: &mut $connection) -> Result<Vec<JobId>> {
                insert_all(tx, self).await
            }
        }
    };
    ($connection:ty: $($call:ty),*) => {
        $(
            impl Within<$connection> for $call {
                type Ids = JobId;

                async fn within(self, tx: &mut $connection) -> Result<JobId> {
                    insert(tx, &self.row()?).await
                }
            }
        )*
    };
}

#[cfg(feature = "postgres")]
within!(sqlx::PgConnection);
#[cfg(feature = "sqlite")]
within!(sqlx::SqliteConnection);
#[cfg(feature = "mysql")]
within!(sqlx::MySqlConnection);

/// `&mut tx` is as good as `&mut *tx`.
impl<T: Within<DB::Connection>, DB: Database> Within<Transaction<'_, DB>> for T {
    type Ids = T::Ids;

    fn within(self, tx: &mut Transaction<'_, DB>) -> impl Future<Output = Result<T::Ids>> + Send {
        self.within(&mut **tx)
    }
}
