//! The database of a command: PostgreSQL, or a SQLite file.

use std::time::Duration;

use clap::Args;
use jobq::relay::Source as _;
use jobq::setting;
use jobq_tokio_postgres::{PgOutbox, Refused};

use super::file::File;
use super::list::Listed;
use crate::end::Problem;

/// The database of a command.
#[derive(Debug, Args)]
pub(crate) struct Database {
    /// Database with the outbox: `postgres://user:password@host/database` or `sqlite://file.db`. Other
    /// users of the machine can see the command line: put passwords in the environment variable
    #[arg(long, env = "JOBQ_OUTBOX_URL", hide_env_values = true, value_name = "URL")]
    outbox: String,
}

impl Database {
    pub(super) fn open(&self) -> Result<Outbox, Problem> {
        Outbox::open(&self.outbox)
    }

    /// The source of a relay.
    pub(crate) fn source(&self) -> Result<PgOutbox, Problem> {
        match self.open()? {
            Outbox::Postgres(outbox) => Ok(outbox),
            Outbox::File(file) => Err(Problem::Usage(format!(
                "`jobq relay` works on PostgreSQL, and {} is a SQLite file: the relay of a file runs in \
                 your program, by `WorkerPool::relay`, and a file of jobq needs none",
                file.name()
            ))),
        }
    }
}

/// The outbox of a database.
#[derive(Debug)]
pub(super) enum Outbox {
    Postgres(PgOutbox),
    File(File),
}

impl Outbox {
    pub(super) fn open(url: &str) -> Result<Self, Problem> {
        setting::check("`--outbox` (JOBQ_OUTBOX_URL)", url)?;
        Ok(match url.strip_prefix("sqlite://") {
            Some(path) => Self::File(File::new(path)),
            None => Self::Postgres(PgOutbox::lazy(url)?),
        })
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Postgres(outbox) => outbox.name(),
            Self::File(file) => file.name(),
        }
    }

    /// The first rows of a namespace: those that were refused, or all.
    pub(super) async fn list(
        &self,
        namespace: &str,
        all: bool,
        limit: u32,
    ) -> jobq::Result<Vec<Listed>> {
        match self {
            Self::Postgres(outbox) => {
                let rows = outbox.list(namespace, all, limit).await?;
                Ok(rows.into_iter().map(Listed::from).collect())
            }
            Self::File(file) => file.list(namespace, all, limit),
        }
    }

    /// Has refused rows tried again, and returns their number.
    pub(super) async fn retry(&self, namespace: &str, rows: &Refused) -> jobq::Result<u64> {
        match self {
            Self::Postgres(outbox) => outbox.retry(namespace, rows).await,
            Self::File(file) => file.retry(namespace, rows),
        }
    }

    /// Deletes refused rows, and returns their number.
    pub(super) async fn discard(&self, namespace: &str, rows: &Refused) -> jobq::Result<u64> {
        match self {
            Self::Postgres(outbox) => outbox.discard(namespace, rows).await,
            Self::File(file) => file.discard(namespace, rows),
        }
    }

    /// Makes the tables, and returns whether they were missing.
    pub(super) async fn migrate(&self) -> jobq::Result<bool> {
        match self {
            Self::Postgres(outbox) => outbox.migrate().await,
            Self::File(file) => file.migrate(),
        }
    }

    /// Checks the columns, and the rights of a relay.
    pub(super) async fn verify(&self) -> jobq::Result<()> {
        match self {
            Self::Postgres(outbox) => outbox.verify().await,
            Self::File(file) => file.verify(),
        }
    }

    /// Deletes marks that are older than this, and returns their number.
    pub(super) async fn delete_marks(&self, namespace: &str, older: Duration) -> jobq::Result<u64> {
        match self {
            Self::Postgres(outbox) => outbox.delete_marks(namespace, older).await,
            Self::File(file) => file.delete_marks(namespace, older),
        }
    }
}
