use std::time::SystemTime;

use clap::Args;
use jobq::admin::text;
use jobq_tokio_postgres::ListedRow;
use serde_json::{Value, json};

use super::Database;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;
use crate::output::table::{Align, Cell, Table};

/// Show the rows that were refused, with their errors
///
/// TO is the queue of a job or the topic of an event. TRIES is how often the row was refused, and NEXT
/// the time until it is tried again.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: Database,
    /// Show all rows, also those that wait for a relay
    #[arg(long)]
    all: bool,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    limit: u32,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) seq: i64,
    pub(super) queue: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) name: Option<String>,
    pub(super) job_id: String,
    /// When the row was made, if that is a time.
    pub(super) enqueued_at: Option<SystemTime>,
    /// The size of the payload.
    pub(super) bytes: u64,
    pub(super) tries: u32,
    /// When it is tried again; `None` for at once.
    pub(super) retry_at: Option<SystemTime>,
    pub(super) error: Option<String>,
}

impl From<ListedRow> for Listed {
    fn from(row: ListedRow) -> Self {
        let ListedRow { seq, queue, topic, name, job_id, enqueued_at, bytes, .. } = row;
        let (tries, retry_at, error) = (row.tries, row.retry_at, row.error);
        Self { seq, queue, topic, name, job_id, enqueued_at, bytes, tries, retry_at, error }
    }
}

const COLUMNS: [(&str, Align); 7] = [
    ("ROW", Align::Right),
    ("TO", Align::Left),
    ("JOB", Align::Left),
    ("AGE", Align::Right),
    ("TRIES", Align::Right),
    ("NEXT", Align::Right),
    ("ERROR", Align::Left),
];

pub(super) async fn run(arguments: &Arguments, options: &Options, output: Output) -> Ended {
    let outbox = arguments.database.open()?;
    let rows = outbox.list(options.namespace(), arguments.all, arguments.limit).await?;
    let now = SystemTime::now();
    let document = json!({"rows": rows.iter().map(document).collect::<Vec<_>>()});
    let table = Table::new(&COLUMNS, rows.iter().map(|row| cells(row, now)));
    output.listing(document, &table, Vec::new())?;
    Ok(End::Done)
}

fn document(row: &Listed) -> Value {
    json!({
        "row": row.seq,
        "queue": row.queue,
        "topic": row.topic,
        "job": row.name,
        "id": row.job_id,
        "enqueued_at": row.enqueued_at.map(text::time),
        "bytes": row.bytes,
        "tries": row.tries,
        "retry_at": row.retry_at.map(text::time),
        "error": row.error,
    })
}

fn cells(row: &Listed, now: SystemTime) -> [Cell; 7] {
    let age = row.enqueued_at.map(|at| now.duration_since(at).unwrap_or_default());
    let next = row.retry_at.map(|at| at.duration_since(now).unwrap_or_default());
    let none = || "-".to_owned();
    [
        Cell::from(row.seq.to_string()),
        Cell::from(row.queue.clone().or(row.topic.clone()).unwrap_or_else(none)),
        Cell::from(row.name.clone().unwrap_or_else(none)),
        Cell::from(age.map_or_else(none, text::duration)),
        Cell::from(row.tries.to_string()),
        Cell::from(next.map_or_else(none, text::duration)),
        Cell::from(row.error.clone().unwrap_or_default()),
    ]
}
