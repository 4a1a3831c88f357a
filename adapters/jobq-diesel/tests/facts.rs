//! The facts of each adapter, on the connection of diesel itself.

#![cfg(feature = "sync")]
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use diesel::connection::SimpleConnection as _;
use diesel::{Connection, PgConnection, result};
use jobq::{BoxError, Result};
use jobq_diesel::{Once, Within};
use jobq_outbox_facts::{Adapter, Answer, End, Step};
use tokio::task::spawn_blocking;

/// The connection is away while a thread has it.
struct Diesel(Option<PgConnection>);

impl Adapter for Diesel {
    async fn connect(url: &str) -> Self {
        let url = url.to_owned();
        Self(Some(spawn_blocking(move || PgConnection::establish(&url).unwrap()).await.unwrap()))
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Result<Vec<Answer>> {
        let mut db = self.0.take().unwrap();
        let transaction = spawn_blocking(move || {
            let answers = transaction(&mut db, steps, end);
            (db, answers)
        });
        let (db, answers) = transaction.await.unwrap();
        self.0 = Some(db);
        answers
    }
}

fn transaction(db: &mut PgConnection, steps: Vec<Step>, end: End) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    let done = db.transaction::<_, BoxError, _>(|connection| {
        for step in steps {
            answers.push(take(connection, step)?);
        }
        match end {
            End::Commit => Ok(()),
            End::Rollback => Err(result::Error::RollbackTransaction.into()),
        }
    });
    match done {
        Ok(()) => Ok(answers),
        Err(error) if end == End::Rollback && error.is::<result::Error>() => Ok(answers),
        Err(error) => Err(*error.downcast().unwrap()),
    }
}

fn take(connection: &mut PgConnection, step: Step) -> Result<Answer> {
    Ok(match step {
        Step::Sql(statement) => {
            connection.batch_execute(&statement).unwrap();
            Answer::Done
        }
        Step::Enqueue(job) => Answer::Ids(vec![job.within(connection)?]),
        Step::EnqueueNamed(job) => Answer::Ids(vec![job.within(connection)?]),
        Step::EnqueueAll(jobs) => Answer::Ids(jobs.within(connection)?),
        Step::Publish(event) => Answer::Ids(vec![event.within(connection)?]),
        Step::Refused(job) => Answer::Refused(job.within(connection).unwrap_err().to_string()),
        Step::Once(ctx, step) => Answer::IsFirst(ctx.once(connection, step)?.is_first()),
    })
}

jobq_outbox_facts::facts!(Diesel);
