//! The facts of each adapter, on the connection of diesel-async.

#![cfg(feature = "async")]
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use diesel::result;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection as _};
use jobq::{BoxError, Result};
use jobq_diesel::asynchronous::{Once, Within};
use jobq_outbox_facts::{Adapter, Answer, End, Step};

struct DieselAsync(AsyncPgConnection);

impl Adapter for DieselAsync {
    async fn connect(url: &str) -> Self {
        Self(AsyncPgConnection::establish(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Result<Vec<Answer>> {
        let mut answers = Vec::new();
        let transaction = self.0.transaction::<_, BoxError, _>(async |connection| {
            for step in steps {
                answers.push(take(connection, step).await?);
            }
            match end {
                End::Commit => Ok(()),
                End::Rollback => Err(result::Error::RollbackTransaction.into()),
            }
        });
        match transaction.await {
            Ok(()) => Ok(answers),
            Err(error) if end == End::Rollback && error.is::<result::Error>() => Ok(answers),
            Err(error) => Err(*error.downcast().unwrap()),
        }
    }
}

async fn take(connection: &mut AsyncPgConnection, step: Step) -> Result<Answer> {
    Ok(match step {
        Step::Sql(statement) => {
            connection.batch_execute(&statement).await.unwrap();
            Answer::Done
        }
        Step::Enqueue(job) => Answer::Ids(vec![job.within(connection).await?]),
        Step::EnqueueNamed(job) => Answer::Ids(vec![job.within(connection).await?]),
        Step::EnqueueAll(jobs) => Answer::Ids(jobs.within(connection).await?),
        Step::Publish(event) => Answer::Ids(vec![event.within(connection).await?]),
        Step::Refused(job) => {
            Answer::Refused(job.within(connection).await.unwrap_err().to_string())
        }
        Step::Once(ctx, step) => Answer::IsFirst(ctx.once(connection, step).await?.is_first()),
    })
}

jobq_outbox_facts::facts!(DieselAsync);
