mod change;
mod list;
mod next;

use clap::Subcommand;

use crate::end::Ended;
use crate::options::Options;
use crate::output::Output;
use change::{Pause, Remove, Resume, Run};

/// Inspect and control the schedules of periodic jobs
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Run(change::Run),
    Pause(change::Pause),
    Resume(change::Resume),
    Remove(change::Remove),
    Next(next::Arguments),
}

pub(crate) async fn run(command: Command, options: &Options, output: Output) -> Ended {
    match command {
        Command::List(arguments) => list::run(arguments, options, output).await,
        Command::Run(Run { target }) => change::run(target, options, output).await,
        Command::Pause(Pause { target }) => change::pause(target, options, output).await,
        Command::Resume(Resume { target }) => change::resume(target, options, output).await,
        Command::Remove(Remove { target }) => change::remove(target, options, output).await,
        Command::Next(arguments) => next::run(&arguments, output),
    }
}
