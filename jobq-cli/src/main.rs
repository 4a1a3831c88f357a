//! The command `jobq`: inspects and controls the queues, pools and failed jobs of jobq.

mod commands;
mod end;
mod filter;
mod log;
mod options;
mod output;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;

use self::commands::Cli;
use self::end::{End, Problem};
use self::output::Output;

fn main() -> ExitCode {
    // Usage errors end the process here, with the exit code 2.
    let cli = Cli::parse();
    log::start(cli.options.log.clone());
    let output = Output::new(cli.options.color, cli.options.json);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(commands::run(cli, output)),
        Err(error) => Err(Problem::Refused(format!("cannot start the command: {error}"))),
    };
    let end = ended.unwrap_or_else(|problem| {
        let end = problem.end();
        // A reader that closed the pipe has read enough.
        if end != End::Done {
            output.error(&problem.to_string());
        }
        end
    });
    ExitCode::from(end.code())
}
