use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use super::Cli;
use crate::end::{End, Ended, Problem};
use crate::output::Output;

/// Print the manual page, or write the pages of all commands to a folder
///
/// Example: `jobq man --directory /usr/local/share/man/man1`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Existing folder to write the pages to
    #[arg(long, value_name = "FOLDER")]
    directory: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Ended {
    let command = Cli::command();
    if let Some(folder) = &arguments.directory {
        clap_mangen::generate_to(command, folder).map_err(|error| {
            let folder = folder.display();
            Problem::Refused(format!("cannot write the man pages into {folder}: {error}"))
        })?;
        return Ok(End::Done);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    output.print(&String::from_utf8_lossy(&page))?;
    Ok(End::Done)
}
