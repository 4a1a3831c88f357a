//! The commands, one file each.

mod cancel;
mod check;
mod completions;
mod dashboard;
mod doctor;
mod enqueue;
pub(crate) mod failed;
mod man;
mod metrics;
mod migrate;
mod moving;
mod outbox;
mod pause;
mod publish;
mod queues;
mod relay;
mod resume;
mod schedules;
mod topology;
mod watch;
mod workers;

use clap::{Parser, Subcommand};

use crate::end::Ended;
use crate::options::Options;
use crate::output::Output;

/// The delay levels of RabbitMQ, among the queues.
const LEVELS: &str = "@levels";

/// The exit codes, below the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  success, also if a filter matches nothing
  1  a check failed
  2  invalid command line
  3  partly done, or cancelled
  4  no such job, pool or queue
  5  the broker or the file is unreachable or refuses; the error says what may have been done";

/// Inspect and control the queues, worker pools and failed jobs of jobq.
#[derive(Debug, Parser)]
#[command(name = "jobq", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    Queues(queues::Arguments),
    Workers(workers::Arguments),
    #[command(subcommand)]
    Failed(failed::Command),
    Enqueue(enqueue::Arguments),
    Publish(publish::Arguments),
    Pause(pause::Arguments),
    Resume(resume::Arguments),
    Cancel(cancel::Arguments),
    Check(check::Arguments),
    Dashboard(dashboard::Arguments),
    Doctor(doctor::Arguments),
    #[command(subcommand)]
    Topology(topology::Command),
    #[command(subcommand)]
    Schedules(schedules::Command),
    #[command(subcommand)]
    Outbox(outbox::Command),
    Relay(relay::Arguments),
    Metrics(metrics::Arguments),
    Migrate(migrate::Arguments),
    Move(moving::Arguments),
    Completions(completions::Arguments),
    Watch(watch::Arguments),
    Man(man::Arguments),
}

/// Runs a command to its end.
pub(crate) async fn run(cli: Cli, output: Output) -> Ended {
    let options = &cli.options;
    match cli.command {
        Command::Queues(arguments) => queues::run(arguments, options, output).await,
        Command::Workers(arguments) => workers::run(arguments, options, output).await,
        Command::Failed(arguments) => failed::run(arguments, options, output).await,
        Command::Enqueue(arguments) => enqueue::run(arguments, options, output).await,
        Command::Publish(arguments) => publish::run(arguments, options, output).await,
        Command::Pause(arguments) => pause::run(arguments, options, output).await,
        Command::Resume(arguments) => resume::run(arguments, options, output).await,
        Command::Cancel(arguments) => cancel::run(arguments, options, output).await,
        Command::Check(arguments) => check::run(arguments, options, output).await,
        Command::Dashboard(arguments) => dashboard::run(arguments, options, output).await,
        Command::Doctor(arguments) => doctor::run(arguments, options, output).await,
        Command::Watch(arguments) => watch::run(arguments, options, output).await,
        Command::Topology(arguments) => Box::pin(topology::run(arguments, options, output)).await,
        Command::Schedules(arguments) => schedules::run(arguments, options, output).await,
        Command::Outbox(arguments) => outbox::run(arguments, options, output).await,
        Command::Relay(arguments) => relay::run(arguments, options, output).await,
        Command::Metrics(arguments) => metrics::run(arguments, options, output).await,
        Command::Migrate(arguments) => migrate::run(&arguments, options, output).await,
        Command::Move(arguments) => Box::pin(moving::run(arguments, options, output)).await,
        Command::Completions(arguments) => completions::run(&arguments, output),
        Command::Man(arguments) => man::run(&arguments, output),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_are_well_defined() {
        Cli::command().debug_assert();
    }
}
