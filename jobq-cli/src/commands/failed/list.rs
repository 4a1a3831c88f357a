use std::time::SystemTime;

use clap::Args;
use jobq::FailedJob;
use jobq::admin::text;
use jobq::admin::{Cursor, Page};
use serde::Serialize;

use super::{job, nothing_found};
use crate::end::{End, Ended};
use crate::filter::FilterOptions;
use crate::options::Options;
use crate::output::Output;
use crate::output::table::{Align, Cell, Table};
use crate::output::time::since;

/// List failed jobs, oldest first
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
    /// Maximum number of jobs to show. With 0, only counts them
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,
    /// Continue after this cursor, as printed at the end of another list
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    #[command(flatten)]
    filter: FilterOptions,
}

/// A page as a document.
#[derive(Serialize)]
struct Document {
    jobs: Vec<job::Document>,
    next: Option<Cursor>,
    matching: u64,
    complete: bool,
    as_of: String,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let filter = arguments.filter.filter()?;
    let client = options.client().await?;
    let failed = client.failed(&arguments.queue);
    let page = failed.page(&filter, arguments.after, arguments.limit).await?;
    let is_empty = page.matching == 0 && arguments.after.is_none();
    let document = Document {
        jobs: page.jobs.iter().map(job::Document::from).collect(),
        next: page.next,
        matching: page.matching,
        complete: page.complete,
        as_of: text::time_millis(page.as_of),
    };
    output.listing(document, &table(&page.jobs, SystemTime::now()), notes(&page))?;
    match page {
        Page { complete: false, matching: 0, .. } => Ok(End::Partly),
        _ if is_empty => nothing_found(&client, &arguments.queue).await,
        _ => Ok(End::Done),
    }
}

fn table(jobs: &[FailedJob], now: SystemTime) -> Table {
    let columns = [
        ("ID", Align::Left),
        ("JOB", Align::Left),
        ("REASON", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("AGO", Align::Right),
        ("ERROR", Align::Left),
    ];
    let row = |job: &FailedJob| {
        [
            Cell::from(job.id()),
            Cell::from(job.name()),
            Cell::from(job.reason()),
            Cell::from(job.attempts()),
            Cell::from(since(job.failed_at(), now)),
            Cell::from(job.error().lines().next().unwrap_or_default()),
        ]
    };
    Table::new(&columns, jobs.iter().map(row))
}

/// Notes about the jobs that are not on the page.
fn notes(page: &Page<FailedJob>) -> Vec<String> {
    let mut notes = Vec::new();
    let (shown, matching) = (page.jobs.len(), page.matching);
    let least = if page.complete { "" } else { "at least " };
    match page.next {
        Some(next) => {
            notes.push(format!("{shown} of {least}{matching}; the next ones: --after {next}"));
        }
        None if page.jobs.is_empty() && matching > 0 => {
            notes.push(format!("{shown} of {least}{matching}"));
        }
        None => {}
    }
    if matching == 0 {
        notes.push(if page.complete {
            "no failed job matches".into()
        } else {
            "none that matches was found; not all failed jobs could be looked at".into()
        });
    }
    notes
}
