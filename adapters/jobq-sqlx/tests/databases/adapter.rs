//! The adapters: a pool of each database.

use jobq::Result;
use jobq_outbox_facts::{Adapter, Answer, Database, End, Step};
use jobq_sqlx::{Once, Within};
use sqlx::{
    AssertSqlSafe, MySqlConnection, MySqlPool, PgConnection, PgPool, SqliteConnection, SqlitePool,
};

/// An adapter with this name, for the pool and the connection of a database.
macro_rules! adapter {
    ($name:ident, $pool:ty, $connection:ty) => {
        pub(crate) struct $name($pool);

        impl<D: Database> Adapter<D> for $name {
            async fn connect(url: &str) -> Self {
                Self(<$pool>::connect(url).await.unwrap())
            }

            async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Result<Vec<Answer>> {
                let mut tx = self.0.begin().await.unwrap();
                let mut answers = Vec::new();
                for step in steps {
                    answers.push(Self::take(&mut tx, step).await?);
                }
                match end {
                    End::Commit => tx.commit().await.unwrap(),
                    End::Rollback => tx.rollback().await.unwrap(),
                }
                Ok(answers)
            }
        }

        impl $name {
            async fn take(tx: &mut $connection, step: Step) -> Result<Answer> {
                Ok(match step {
                    Step::Sql(statement) => {
                        sqlx::raw_sql(AssertSqlSafe(statement)).execute(tx).await.unwrap();
                        Answer::Done
                    }
                    Step::Enqueue(job) => Answer::Ids(vec![job.within(tx).await?]),
                    Step::EnqueueNamed(job) => Answer::Ids(vec![job.within(tx).await?]),
                    Step::EnqueueAll(jobs) => Answer::Ids(jobs.within(tx).await?),
                    Step::Publish(event) => Answer::Ids(vec![event.within(tx).await?]),
                    Step::Refused(job) => {
                        Answer::Refused(job.within(tx).await.unwrap_err().to_string())
                    }
                    Step::Once(ctx, step) => Answer::IsFirst(ctx.once(tx, step).await?.is_first()),
                })
            }
        }
    };
}

adapter!(OnPostgres, PgPool, PgConnection);
adapter!(OnSqlite, SqlitePool, SqliteConnection);
adapter!(OnMariaDb, MySqlPool, MySqlConnection);
