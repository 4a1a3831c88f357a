//! The facts of each adapter.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::Result;
use jobq_outbox_facts::{Adapter, Answer, End, Step};
use jobq_tokio_postgres::{Once, Within};
use tokio_postgres::{Client, NoTls, Transaction};

struct TokioPostgres(Client);

impl Adapter for TokioPostgres {
    async fn connect(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Result<Vec<Answer>> {
        let tx = self.0.transaction().await.unwrap();
        let mut answers = Vec::new();
        for step in steps {
            answers.push(take(&tx, step).await?);
        }
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        Ok(answers)
    }
}

async fn take(tx: &Transaction<'_>, step: Step) -> Result<Answer> {
    Ok(match step {
        Step::Sql(statement) => {
            tx.batch_execute(&statement).await.unwrap();
            Answer::Done
        }
        Step::Enqueue(job) => Answer::Ids(vec![job.within(tx).await?]),
        Step::EnqueueNamed(job) => Answer::Ids(vec![job.within(tx).await?]),
        Step::EnqueueAll(jobs) => Answer::Ids(jobs.within(tx).await?),
        Step::Publish(event) => Answer::Ids(vec![event.within(tx).await?]),
        Step::Refused(job) => Answer::Refused(job.within(tx).await.unwrap_err().to_string()),
        Step::Once(ctx, step) => Answer::IsFirst(ctx.once(tx, step).await?.is_first()),
    })
}

jobq_outbox_facts::facts!(TokioPostgres);
