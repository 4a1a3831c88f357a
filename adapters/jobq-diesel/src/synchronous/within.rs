use diesel::PgConnection;
use jobq::outbox::Row;
use jobq::{Enqueue, EnqueueAll, EnqueueNamed, JobId, Publish, Result};

use super::execute;
use crate::statements::{INSERTING, insert};

/// Enqueues and publishes in a transaction of the user's.
///
/// ```no_run
/// use diesel::{Connection, PgConnection};
/// use jobq::BoxError;
/// use jobq_diesel::Within;
///
/// # #[jobq::job] async fn remind(user_id: u64) -> Result<(), BoxError> { Ok(()) }
/// # fn example(client: jobq::Client, mut db: PgConnection) -> Result<(), BoxError> {
/// db.transaction::<_, BoxError, _>(|connection| {
///     client.enqueue(Remind { user_id: 7 }).delay("10m").within(connection)?;
///     client.publish("user.created", &7).within(connection)?;
///     client.enqueue_all((1..=1_000).map(|user_id| Remind { user_id })).within(connection)?;
///     Ok(())
/// })?;
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
    /// such as `timeout`; a connection on which diesel has begun no transaction, also if a
    /// statement of yours has begun one. Nothing was sent to the database then, and a transaction
    /// can go on. An error of the database ends the transaction, as for any other statement.
    fn within(self, connection: &mut PgConnection) -> Result<Self::Ids>;
}

impl Within for Enqueue {
    type Ids = JobId;

    fn within(self, connection: &mut PgConnection) -> Result<JobId> {
        write(connection, &self.row()?)
    }
}

impl Within for EnqueueNamed {
    type Ids = JobId;

    fn within(self, connection: &mut PgConnection) -> Result<JobId> {
        write(connection, &self.row()?)
    }
}

impl Within for Publish {
    type Ids = JobId;

    fn within(self, connection: &mut PgConnection) -> Result<JobId> {
        write(connection, &self.row()?)
    }
}

/// An error of one job is returned before those after it are made. The transaction has those before
/// it, so roll it back.
impl Within for EnqueueAll<'_> {
    type Ids = Vec<JobId>;

    fn within(self, connection: &mut PgConnection) -> Result<Vec<JobId>> {
        self.rows()?.map(|row| write(connection, &row?)).collect()
    }
}

fn write(connection: &mut PgConnection, row: &Row) -> Result<JobId> {
    execute(connection, INSERTING, insert(row))?;
    row.job_id.parse()
}
