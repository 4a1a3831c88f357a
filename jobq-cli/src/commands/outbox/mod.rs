mod change;
mod database;
mod file;
mod list;
mod tables;

use clap::Subcommand;

pub(crate) use self::database::Database;
use crate::end::Ended;
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
