//! The tables themselves.

use std::time::Duration;

use clap::Args;
use jobq::outbox::postgres::MIGRATION;
use jobq::relay::Source as _;
use serde_json::json;

use super::{Database, open};
use crate::end::{End, Ended};
use crate::options::{Options, period};
use crate::output::Output;

/// Create the tables `jobq_outbox` and `jobq_inbox` if they are missing
///
/// If a tool runs the migrations of the database, add the output of `--print` to them instead.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// PostgreSQL database in which the tables are created
    #[arg(
        long,
        env = "JOBQ_OUTBOX_URL",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "print"
    )]
    outbox: Option<String>,
    /// Print the SQL, and use no database
    #[arg(long)]
    print: bool,
}

/// Check the columns of the outbox, and the rights of a relay
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    database: Database,
}

/// Delete old marks of the inbox
///
/// A relay does it once an hour, for marks older than 30 days. A job that runs again after that does
/// its steps again.
#[derive(Debug, Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    database: Database,
    /// Age of the marks
    #[arg(long, default_value = "30d", value_name = "DURATION", value_parser = period)]
    older: Duration,
}

pub(super) async fn migrate(arguments: &Migrate, output: Output) -> Ended {
    let Some(url) = arguments.outbox.as_ref().filter(|_| !arguments.print) else {
        output.answer(json!({"sql": MIGRATION}), || MIGRATION.trim_end().to_owned())?;
        return Ok(End::Done);
    };
    let outbox = open(url)?;
    let made = outbox.migrate().await?;
    let document = json!({"outbox": outbox.name(), "made": made});
    output.answer(document, || {
        let done = if made { "made" } else { "exists already" };
        format!("{}: {done}", outbox.name())
    })?;
    Ok(End::Done)
}

pub(super) async fn verify(arguments: &Verify, output: Output) -> Ended {
    let outbox = arguments.database.outbox()?;
    outbox.verify().await?;
    let document = json!({"outbox": outbox.name()});
    output.answer(document, || format!("{}: a relay can work on it", outbox.name()))?;
    Ok(End::Done)
}

pub(super) async fn clean(arguments: &Clean, options: &Options, output: Output) -> Ended {
    let outbox = arguments.database.outbox()?;
    let deleted = outbox.delete_marks(options.namespace(), arguments.older).await?;
    output.answer(json!({"deleted": deleted}), || format!("deleted marks: {deleted}"))?;
    Ok(End::Done)
}
