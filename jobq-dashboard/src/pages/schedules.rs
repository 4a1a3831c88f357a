//! The schedules of periodic jobs with their next times, and what can be done with them.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::extract::Path;
use jobq::admin::text;
use jobq::admin::{Queues, ScheduleReport, Schedules};

use super::Tab;
use crate::access::Action;
use crate::links::{Links, segment};
use crate::request::{Answer, Form, Request};
use crate::show::Time;

/// The next times that a schedule shows.
const NEXT: usize = 10;

struct Row<'p> {
    schedule: &'p ScheduleReport,
    /// The path of its actions.
    path: String,
    times: String,
    /// The wait until the next time, if there is one.
    wait: Option<String>,
    next: Vec<String>,
    last: Option<String>,
    paused: Option<String>,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct View<'p> {
    links: &'p Links,
    rows: Vec<Row<'p>>,
    found: &'p Schedules,
    may_act: bool,
}

pub(crate) async fn page(request: Request) -> Answer {
    let found = request.app.client().admin().schedules(Queues::All).await?;
    let (now, links) = (SystemTime::now(), request.app.links());
    let view = View {
        links,
        rows: found.schedules.iter().map(|schedule| row(schedule, links, now)).collect(),
        found: &found,
        may_act: request.viewer.may(Action::Schedules),
    };
    request.page(Tab::Schedules, "Schedules", &view)
}

fn row<'p>(schedule: &'p ScheduleReport, links: &Links, now: SystemTime) -> Row<'p> {
    let next = schedule.next(now, NEXT);
    let wait = |due: &SystemTime| due.duration_since(now).unwrap_or_default();
    let times = schedule.times.join(", ");
    let queue_and_name = format!("{}/{}", segment(&schedule.queue), segment(&schedule.name));
    Row {
        schedule,
        path: links.to(&format!("/schedules/{queue_and_name}")),
        times: if schedule.zone == "UTC" { times } else { format!("{times} ({})", schedule.zone) },
        wait: next.iter().flatten().next().map(|due| text::duration(rounded(wait(due)))),
        next: next
            .iter()
            .flatten()
            .map(|due| {
                format!("{}, in {}", schedule.words(*due), text::duration(rounded(wait(due))))
            })
            .collect(),
        last: schedule.last.map(|last| Time(last).age(now)),
        paused: schedule.paused.map(|since| Time(since).age(now)),
        problem: next.err().map(|error| error.to_string()).or_else(|| schedule.problem.clone()),
    }
}

/// A wait in whole seconds.
fn rounded(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs())
}

pub(crate) async fn run(Path(of): Path<(String, String)>, form: Form) -> Answer {
    form.viewer.require(Action::Schedules)?;
    let run = form.admin().run_schedule(&of.1, Queues::one(&of.0)).await;
    acted(&form, "run", of, run.map(|id| format!("job {id} requested"))).await
}

pub(crate) async fn pause(Path(of): Path<(String, String)>, form: Form) -> Answer {
    form.viewer.require(Action::Schedules)?;
    let paused = form.admin().pause_schedule(&of.1, Queues::one(&of.0)).await;
    acted(&form, "pause", of, paused.map(|()| "done".to_owned())).await
}

pub(crate) async fn resume(Path(of): Path<(String, String)>, form: Form) -> Answer {
    form.viewer.require(Action::Schedules)?;
    let resumed = form.admin().resume_schedule(&of.1, Queues::one(&of.0)).await;
    acted(&form, "resume", of, resumed.map(|()| "done".to_owned())).await
}

pub(crate) async fn remove(Path(of): Path<(String, String)>, form: Form) -> Answer {
    form.viewer.require(Action::Schedules)?;
    let removed = form.admin().remove_schedule(&of.1, Queues::one(&of.0)).await;
    acted(&form, "remove", of, removed.map(|()| "done".to_owned())).await
}

async fn acted(
    form: &Form,
    action: &'static str,
    (queue, name): (String, String),
    done: jobq::Result<String>,
) -> Answer {
    let target = format!("schedule {name} of {queue}");
    form.acted((action, target), done, Clone::clone, &form.app.links().to("/schedules")).await
}
