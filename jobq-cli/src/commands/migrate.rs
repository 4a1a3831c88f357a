use std::path::PathBuf;

use clap::Args;
use jobq::{Client, Migrated, setting};
use serde::Serialize;

use crate::end::{End, Ended, Problem};
use crate::options::Options;
use crate::output::Output;

/// Migrate a SQLite file to the schema of this version
///
/// Programs migrate the file themselves when they enqueue or take jobs. Programs of earlier
/// versions cannot open the file afterwards. A file with the clock of another time namespace gets
/// the clock of this one, if no process has the file open.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// SQLite file to migrate
    file: PathBuf,
}

pub(crate) async fn run(arguments: &Arguments, options: &Options, output: Output) -> Ended {
    #[derive(Serialize)]
    struct Document<'m> {
        file: &'m str,
        #[serde(flatten)]
        migrated: &'m Migrated,
    }

    let Some(file) = arguments.file.to_str() else {
        let shown = arguments.file.display();
        return Err(Problem::Usage(format!(
            "the file name {shown} is not valid UTF-8; rename the file"
        )));
    };
    setting::check("the file name", file)?;
    let builder = Client::builder(format!("sqlite://{file}")).timeout(options.timeout);
    let migrated = builder.migrate().await?;
    let Migrated { from, to, .. } = migrated;
    let schema = if from == to {
        format!("has schema {to} already")
    } else {
        format!("has schema {to}; it had {from}")
    };
    let clock = if migrated.clock_replaced { ", and now the clock of this machine" } else { "" };
    let document = Document { file, migrated: &migrated };
    output.answer(document, || format!("the job file {file} {schema}{clock}"))?;
    Ok(End::Done)
}
