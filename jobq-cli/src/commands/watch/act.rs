//! Carries out what the keys ask for.

use std::time::SystemTime;

use jobq::admin::text;
use jobq::admin::{self, Cancelled, Extent, Filter, Operation};
use jobq::{Client, Finding, Result, Severity};

use super::Event;
use super::state::{Action, Group, Grouped, Key, Row};
use crate::commands::failed::groups;
use crate::commands::resume;
use crate::options::with;
use crate::output::colour::Style;
use crate::output::table::Cell;

/// The reason of a pause from this page.
const WHY: &str = "paused in `jobq watch`";

/// Does it, and gives what is shown then.
pub(super) async fn act(client: &Client, actor: &str, action: Action) -> Event {
    match action {
        Action::Examine => Event::Examined(findings(client).await.map_err(|e| e.to_string())),
        Action::Load(queue) => {
            let groups = failed(client, &queue).await.map_err(|error| error.to_string());
            Event::Grouped(queue, groups)
        }
        action => Event::Acted(
            change(client, actor, action).await.unwrap_or_else(|error| format!("error: {error}")),
        ),
    }
}

/// Changes something, and says what was done.
async fn change(client: &Client, actor: &str, action: Action) -> Result<String> {
    let admin = client.admin().by(actor);
    Ok(match action {
        Action::Pause(queue) => {
            let still_taking = admin.pause(&queue, WHY).await?.still_taking;
            let but = text::still_taking(&still_taking).map(|text| format!("; {text}"));
            format!("queue {queue} is paused{}", but.unwrap_or_default())
        }
        Action::Resume(queue) => resume::sentence(&admin.resume(&queue).await?),
        Action::Tell(pool, order) => {
            admin.tell(pool, order).await?;
            format!("pool {pool} {}", text::order(order))
        }
        Action::Cancel(job) => {
            let cancelled: Vec<Cancelled> = admin.cancel_running(job).await?;
            format!("job {job} is asked to end in {} pools", cancelled.len())
        }
        Action::Retry(queue, group, extent) => {
            let operation = client.failed(&queue).retry_where(filter(&group)).by(actor);
            format!("retried: {}", done(operation, extent).await?)
        }
        Action::Discard(queue, group, extent) => {
            let operation = client.failed(&queue).discard_where(filter(&group)).by(actor);
            format!("deleted: {}", done(operation, extent).await?)
        }
        Action::Quit | Action::Load(_) | Action::Examine => String::new(),
    })
}

/// The jobs of a group.
fn filter(group: &Group) -> Filter {
    Filter::new().job(&group.job).reason(group.reason).pattern(&group.error)
}

/// What an operation on the jobs that were looked at did.
async fn done(operation: Operation, extent: Option<Extent>) -> Result<String> {
    let done = with(operation, extent, Operation::within).await?;
    let mut said = vec![format!("{} of {} failed jobs", done.settled, done.matched)];
    said.extend(text::remarks(&done));
    if let Some((id, error)) = done.refused.first() {
        said.push(format!("{} stay failed, such as {id}: {error}", done.refused.len()));
    }
    Ok(said.join("; "))
}

/// The groups of the failed jobs of a queue.
async fn failed(client: &Client, queue: &str) -> Result<Grouped> {
    let (groups, now) = (client.failed(queue).groups(&Filter::new()).await?, SystemTime::now());
    let row = |group: &admin::Group| Row {
        key: Key::Group(Group {
            job: group.job.clone(),
            reason: group.reason,
            error: group.error.clone(),
            count: group.count,
        }),
        cells: groups::row(group, now).into(),
        details: vec![format!("the last one: {}", group.last), group.error.clone()],
    };
    let (rows, notes) = (groups.groups.iter().map(row).collect(), groups::notes(&groups));
    Ok(Grouped { rows, notes, extent: groups.extent })
}

async fn findings(client: &Client) -> Result<Vec<Row>> {
    let report = client.doctor().await?;
    Ok(report.findings().iter().enumerate().map(finding).collect())
}

fn finding((index, finding): (usize, &Finding)) -> Row {
    let style = match finding.severity() {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Notable,
        _ => Style::Plain,
    };
    let cells = vec![
        Cell::new(finding.severity().to_string(), style),
        Cell::from(finding.about()),
        Cell::from(finding.what()),
    ];
    let details = vec![format!("why: {}", finding.why()), format!("do: {}", finding.advice())];
    Row { key: Key::Finding(index), cells, details }
}
