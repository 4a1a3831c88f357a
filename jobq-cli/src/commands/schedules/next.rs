use std::time::{Duration, SystemTime};

use clap::Args;
use jobq::admin::text;
use jobq::schedule::Schedule;
use serde_json::json;

use crate::end::{End, Ended, Problem};
use crate::options::period;
use crate::output::Output;
use crate::output::table::{Align, Table};

/// Print the next times of a cron expression or a period, without connecting to a broker
///
/// A cron expression has five fields: minute, hour, day of month, month and day of week. An
/// expression of six fields begins with the seconds.
///
/// Example: `jobq schedules next "30 2 * * MON-FRI" --zone Europe/Berlin`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Cron expression, in quotes
    #[arg(value_name = "CRON", required_unless_present = "every")]
    cron: Option<String>,
    /// Period, instead of a cron expression
    #[arg(long, value_name = "DURATION", value_parser = period, conflicts_with = "cron")]
    every: Option<Duration>,
    /// Time zone, such as Europe/Berlin
    #[arg(long, value_name = "NAME", default_value = "UTC")]
    zone: String,
    /// Number of next times to print
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    count: u16,
    /// Print the times after this UTC time, such as 2030-01-01T08:00:00Z. Defaults to now
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339_weak)]
    after: Option<SystemTime>,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Ended {
    let schedule = schedule(arguments).map_err(|error| Problem::Usage(error.to_string()))?;
    let (after, since) = match arguments.after {
        Some(after) => (after, "AFTER"),
        None => (SystemTime::now(), "IN"),
    };
    let next: Vec<_> = schedule.after(after).take(arguments.count.into()).collect();
    let documents: Vec<_> = next
        .iter()
        .map(|due| json!({"due": text::time(*due), "local": schedule.local(*due)}))
        .collect();
    let document = json!({
        "schedule": schedule.to_string(),
        "zone": schedule.zone_name(),
        "next": documents,
    });
    let columns = [("LOCAL TIME", Align::Left), ("UTC", Align::Left), (since, Align::Right)];
    let rows = next.iter().map(|due| {
        let wait = due.duration_since(after).unwrap_or_default();
        [schedule.local(*due), text::time(*due), text::duration(wait)].map(Into::into)
    });
    output.listing(document, &Table::new(&columns, rows), Vec::new())?;
    Ok(End::Done)
}

fn schedule(arguments: &Arguments) -> jobq::Result<Schedule> {
    let schedule = match (&arguments.cron, arguments.every) {
        (_, Some(period)) => Schedule::every(period),
        (cron, None) => Schedule::cron(cron.as_deref().unwrap_or_default()),
    };
    schedule?.zone(&arguments.zone)
}
