//! The tables themselves.

use std::time::Duration;

use clap::Args;
use jobq::outbox::{postgres, sqlite};
use serde_json::json;

use super::Database;
use super::database::Outbox;
use crate::end::{End, Ended};
use crate::options::{Options, period};
use crate::output::Output;

/// Create the tables `jobq_outbox` and `jobq_inbox` if they are missing
///
/// If a tool runs the migrations of the database, add the output of `--print` to them instead. It is for
/// PostgreSQL, and for SQLite with the URL of a file. A file of jobq has the tables.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Database in which the tables are created: `postgres://user:password@host/database` or
    /// `sqlite://file.db`
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
    let url = arguments.outbox.as_deref();
    let Some(url) = url.filter(|_| !arguments.print) else {
        let is_file = url.is_some_and(|url| url.starts_with("sqlite:"));
        let sql = if is_file { sqlite::MIGRATION } else { postgres::MIGRATION };
        output.answer(json!({"sql": sql}), || sql.trim_end().to_owned())?;
        return Ok(End::Done);
    };
    let outbox = Outbox::open(url)?;
    let made = outbox.migrate().await?;
    let document = json!({"outbox": outbox.name(), "made": made});
    output.answer(document, || {
        let done = if made { "made" } else { "exists already" };
        format!("{}: {done}", outbox.name())
    })?;
    Ok(End::Done)
}

pub(super) async fn verify(arguments: &Verify, output: Output) -> Ended {
    let outbox = arguments.database.open()?;
    outbox.verify().await?;
    let document = json!({"outbox": outbox.name()});
    output.answer(document, || format!("{}: a relay can work on it", outbox.name()))?;
    Ok(End::Done)
}

pub(super) async fn clean(arguments: &Clean, options: &Options, output: Output) -> Ended {
    let outbox = arguments.database.open()?;
    let deleted = outbox.delete_marks(options.namespace(), arguments.older).await?;
    output.answer(json!({"deleted": deleted}), || format!("deleted marks: {deleted}"))?;
    Ok(End::Done)
}
