//! `jobq failed`: the failed jobs of a queue.

mod export;
pub(crate) mod groups;
mod job;
mod list;
mod operate;
mod outcome;
mod rate;
mod show;

use clap::Subcommand;
use jobq::Client;

use super::queues::{exists, missing};
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;

/// Show, retry and delete failed jobs
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Groups(groups::Arguments),
    Retry(operate::Retry),
    Discard(operate::Discard),
    Purge(operate::Purge),
    Export(export::Arguments),
}

pub(crate) async fn run(command: Command, options: &Options, output: Output) -> Ended {
    match command {
        Command::List(arguments) => list::run(arguments, options, output).await,
        Command::Show(arguments) => show::run(arguments, options, output).await,
        Command::Groups(arguments) => groups::run(arguments, options, output).await,
        Command::Retry(arguments) => operate::retry(arguments, options, output).await,
        Command::Discard(arguments) => operate::discard(arguments, options, output).await,
        Command::Purge(arguments) => operate::purge(arguments, options, output).await,
        Command::Export(arguments) => export::run(arguments, options, output).await,
    }
}

/// The end of a command that found no failed job. A filter that matches nothing is no error, and a
/// queue that does not exist is one.
async fn nothing_found(client: &Client, queue: &str) -> Ended {
    if exists(client, queue).await? { Ok(End::Done) } else { Err(missing(queue)) }
}
