mod change;
mod list;
mod tables;

use clap::{Args, Subcommand};
use jobq::setting;
use jobq_tokio_postgres::PgOutbox;

use crate::end::{Ended, Problem};
use crate::options::Options;
use crate::output::Output;

/// Inspect and correct the outbox of a database
///
/// The outbox is the table `jobq_outbox`, from which `jobq relay` enqueues the jobs of transactions.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Retry(change::Retry),
    Discard(change::Discard),
    Migrate(tables::Migrate),
    Verify(tables::Verify),
    Clean(tables::Clean),
}

pub(crate) async fn run(command: Command, options: &Options, output: Output) -> Ended {
    match command {
        Command::List(arguments) => list::run(&arguments, options, output).await,
        Command::Retry(arguments) => change::retry(arguments, options, output).await,
        Command::Discard(arguments) => change::discard(arguments, options, output).await,
        Command::Migrate(arguments) => tables::migrate(&arguments, output).await,
        Command::Verify(arguments) => tables::verify(&arguments, output).await,
        Command::Clean(arguments) => tables::clean(&arguments, options, output).await,
    }
}

/// The database of a command.
#[derive(Debug, Args)]
pub(crate) struct Database {
    /// PostgreSQL database with the outbox: `postgres://user:password@host/database`. Other users of
    /// the machine can see the command line: put passwords in the environment variable
    #[arg(long, env = "JOBQ_OUTBOX_URL", hide_env_values = true, value_name = "URL")]
    outbox: String,
}

impl Database {
    pub(crate) fn outbox(&self) -> Result<PgOutbox, Problem> {
        open(&self.outbox)
    }
}

fn open(url: &str) -> Result<PgOutbox, Problem> {
    setting::check("`--outbox` (JOBQ_OUTBOX_URL)", url)?;
    Ok(PgOutbox::lazy(url)?)
}
