use std::time::SystemTime;

use clap::Args;
use jobq::admin::text;
use jobq::admin::{ScheduleReport, Schedules};
use serde_json::{Value, json};

use crate::commands::queues::selection;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;
use crate::output::colour::Style;
use crate::output::table::{Align, Cell, Table};

/// Show the schedules of periodic jobs with their next times
///
/// FROM is `code` for a schedule in the code of a worker pool, else the program that made it. NEXT
/// is the next time at which the job is due, in the time zone of the schedule, or `paused`. LAST is
/// the time since its last job was due. The JSON has the payload and the next ten times. Schedules
/// that cannot be read, and changes that a pool refused, are reported on standard error.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Queues to show; all known queues by default
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
}

/// How many next times the JSON has.
const NEXT: usize = 10;

const COLUMNS: [(&str, Align); 7] = [
    ("SCHEDULE", Align::Left),
    ("QUEUE", Align::Left),
    ("TIMES", Align::Left),
    ("FROM", Align::Left),
    ("NEXT", Align::Left),
    ("IN", Align::Right),
    ("LAST", Align::Right),
];

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let found = client.admin().schedules(selection(arguments.queues)).await?;
    let now = SystemTime::now();
    let schedules = found.schedules.iter().map(|schedule| document(schedule, now));
    let document = json!({
        "schedules": schedules.collect::<Vec<_>>(),
        "refused": found.refused,
        "unknown": found.unknown,
        "more": found.more,
    });
    let table = Table::new(&COLUMNS, found.schedules.iter().map(|schedule| row(schedule, now)));
    output.listing(document, &table, notes(&found))?;
    Ok(End::Done)
}

/// The schedule with its next times.
fn document(schedule: &ScheduleReport, now: SystemTime) -> Value {
    let mut document = json!(schedule);
    let next = schedule.next(now, NEXT).unwrap_or_default();
    let next: Vec<_> = next
        .iter()
        .map(|due| json!({"due": text::time(*due), "local": schedule.local(*due)}))
        .collect();
    document["next"] = json!(next);
    document
}

fn row(schedule: &ScheduleReport, now: SystemTime) -> [Cell; 7] {
    let from = if schedule.in_code { "code" } else { &schedule.by };
    let (next, wait) = match (schedule.paused, schedule.next(now, 1)) {
        (Some(_), _) => (Cell::new("paused", Style::Notable), String::new()),
        (None, Err(error)) => (Cell::new(error.to_string(), Style::Notable), String::new()),
        (None, Ok(next)) => match next.first() {
            Some(next) => {
                let wait = next.duration_since(now).unwrap_or_default();
                (Cell::from(schedule.local(*next)), text::duration(wait))
            }
            None => (Cell::from("-"), String::new()),
        },
    };
    let last = schedule.last.map(|last| now.duration_since(last).unwrap_or_default());
    [
        Cell::from(&schedule.name),
        Cell::from(&schedule.queue),
        Cell::from(times(schedule)),
        Cell::from(from),
        next,
        Cell::from(wait),
        Cell::from(last.map_or_else(|| "-".to_owned(), text::duration)),
    ]
}

/// The times with their zone.
fn times(schedule: &ScheduleReport) -> String {
    let times = schedule.times.join(", ");
    if schedule.zone == "UTC" { times } else { format!("{times} ({})", schedule.zone) }
}

fn notes(found: &Schedules) -> Vec<String> {
    let mut notes = Vec::new();
    for schedule in &found.schedules {
        if let Some(problem) = &schedule.problem {
            notes.push(format!("schedule {}: {problem}", schedule.name));
        }
    }
    for (queue, refused) in &found.refused {
        notes.extend(refused.iter().map(|why| format!("queue {queue}: {why}")));
    }
    for (queue, why) in &found.unknown {
        notes.push(format!("the schedules of queue {queue} are unknown: {why}"));
    }
    if found.more {
        notes.push(
            "other queues may have schedules: AMQP cannot list queues, and no management URL is set"
                .to_owned(),
        );
    }
    notes
}
