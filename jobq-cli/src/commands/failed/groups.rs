use std::time::SystemTime;

use clap::Args;
use jobq::admin::{Group, Groups};

use super::nothing_found;
use crate::end::{End, Ended};
use crate::filter::FilterOptions;
use crate::options::Options;
use crate::output::Output;
use crate::output::table::{Align, Cell, Table};
use crate::output::time::since;

/// Show why jobs failed, with counts of similar errors
///
/// `#` in an error stands for the parts that differ: numbers, ids, times and addresses. Pass such
/// an error to `--pattern` of the other commands.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    filter: FilterOptions,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let filter = arguments.filter.filter()?;
    let client = options.client().await?;
    let groups = client.failed(&arguments.queue).groups(&filter).await?;
    let now = SystemTime::now();
    let table = Table::new(&COLUMNS, groups.groups.iter().map(|group| row(group, now)));
    output.listing(&groups, &table, notes(&groups))?;
    match groups.groups.is_empty() {
        _ if !groups.complete => Ok(End::Partly),
        true => nothing_found(&client, &arguments.queue).await,
        false => Ok(End::Done),
    }
}

/// The columns of the table of groups.
pub(crate) const COLUMNS: [(&str, Align); 5] = [
    ("JOBS", Align::Right),
    ("JOB", Align::Left),
    ("REASON", Align::Left),
    ("LAST", Align::Right),
    ("ERROR", Align::Left),
];

/// The cells of a group.
pub(crate) fn row(group: &Group, now: SystemTime) -> [Cell; 5] {
    [
        Cell::from(group.count),
        Cell::from(&group.job),
        Cell::from(group.reason),
        Cell::from(format!("{} ago", since(group.last_at, now))),
        Cell::from(&group.error),
    ]
}

/// Notes on the jobs that the groups leave out.
pub(crate) fn notes(groups: &Groups) -> Vec<String> {
    let mut notes = Vec::new();
    if groups.groups.is_empty() && groups.complete {
        notes.push("no failed job matches".into());
    }
    if groups.other > 0 {
        notes.push(format!("{} failed jobs are in further groups", groups.other));
    }
    if !groups.complete {
        notes.push("not all failed jobs could be looked at".into());
    }
    notes
}
