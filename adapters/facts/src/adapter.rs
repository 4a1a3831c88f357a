use jobq::{Enqueue, EnqueueAll, EnqueueNamed, JobContext, JobId, Publish, Result};

use crate::{Database, Postgres};

/// A library with its adapter, for this database.
pub trait Adapter<D: Database = Postgres>: Send + Sized + 'static {
    /// A connection to the database of this URL.
    fn connect(url: &str) -> impl Future<Output = Self> + Send;

    /// Takes these steps in one transaction. The first error ends it.
    fn transaction(
        &mut self,
        steps: Vec<Step>,
        end: End,
    ) -> impl Future<Output = Result<Vec<Answer>>> + Send;
}

/// A step in a transaction.
#[derive(Debug)]
pub enum Step {
    /// A statement of the program.
    Sql(String),
    /// `enqueue(..).within(..)`.
    Enqueue(Enqueue),
    /// `enqueue_named(..).within(..)`.
    EnqueueNamed(EnqueueNamed),
    /// `enqueue_all(..).within(..)`.
    EnqueueAll(EnqueueAll<'static>),
    /// `publish(..).within(..)`.
    Publish(Publish),
    /// The first three, whose error is an answer, so that the transaction goes on.
    Refused(Enqueue),
    /// `ctx.once(..)`.
    Once(JobContext, &'static str),
}

/// The answer to a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To a statement.
    Done,
    /// The ids of jobs.
    Ids(Vec<JobId>),
    /// The error of a refused call.
    Refused(String),
    /// Whether the run of a step is the first.
    IsFirst(bool),
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It commits.
    Commit,
    /// It is rolled back.
    Rollback,
}
