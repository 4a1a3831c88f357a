//! Rows that were refused.

use clap::Args;
use jobq_tokio_postgres::Refused;
use serde_json::json;

use super::Database;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;
use crate::output::confirm::confirm;

/// Try refused rows again at the next look of the relay or pool, within 30 seconds
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    database: Database,
}

/// Delete refused rows. Their jobs are lost
#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    database: Database,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Rows {
    /// Numbers of the rows, as `jobq outbox list` shows them
    #[arg(value_name = "ROW")]
    numbers: Vec<i64>,
    /// All refused rows of the namespace
    #[arg(long)]
    all: bool,
}

impl Rows {
    fn refused(self) -> Refused {
        if self.all { Refused::All } else { Refused::Numbers(self.numbers) }
    }
}

pub(super) async fn retry(arguments: Retry, options: &Options, output: Output) -> Ended {
    let outbox = arguments.database.open()?;
    let rows = arguments.rows.refused();
    let retried = outbox.retry(options.namespace(), &rows).await?;
    changed("retried", retried, &rows, output)
}

pub(super) async fn discard(arguments: Discard, options: &Options, output: Output) -> Ended {
    let outbox = arguments.database.open()?;
    let rows = arguments.rows.refused();
    let what = match &rows {
        Refused::All => "all refused rows".to_owned(),
        Refused::Numbers(numbers) => format!("{} refused rows", numbers.len()),
    };
    if !confirm(options.yes, &format!("delete {what} of {}", outbox.name()))? {
        return Ok(End::Partly);
    }
    let discarded = outbox.discard(options.namespace(), &rows).await?;
    changed("discarded", discarded, &rows, output)
}

/// Tells how many rows were changed. A number that is no refused row is told by the exit code.
fn changed(change: &str, count: u64, rows: &Refused, output: Output) -> Ended {
    let document = json!({"change": change, "rows": count});
    output.answer(document, || format!("rows {change}: {count}"))?;
    Ok(match rows {
        Refused::Numbers(numbers) if count == 0 && !numbers.is_empty() => End::NotFound,
        Refused::Numbers(numbers) if count < numbers.len() as u64 => End::Partly,
        _ => End::Done,
    })
}
