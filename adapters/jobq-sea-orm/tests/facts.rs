//! The facts of each adapter.

// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::Result;
use jobq_outbox_facts::{Adapter, Answer, End, Step};
use jobq_sea_orm::{Once, Within};
use sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, TransactionTrait,
};

struct SeaOrm(DatabaseConnection);

impl Adapter for SeaOrm {
    async fn connect(url: &str) -> Self {
        Self(Database::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Result<Vec<Answer>> {
        let tx = self.0.begin().await.unwrap();
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

async fn take(tx: &DatabaseTransaction, step: Step) -> Result<Answer> {
    Ok(match step {
        Step::Sql(statement) => {
            tx.execute_unprepared(&statement).await.unwrap();
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

jobq_outbox_facts::facts!(SeaOrm);
