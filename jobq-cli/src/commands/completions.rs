use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::end::{End, Ended};
use crate::output::Output;

/// Print completions for a shell
///
/// Example: `jobq completions bash > /etc/bash_completion.d/jobq`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Target shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "jobq", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(End::Done)
}
