//! Operations on all failed jobs that match: the question before, and the progress.

use std::sync::Arc;

use askama::Template;
use axum::extract::Path;
use jobq::admin::{End, Phase, Progress};

use super::{Page, Tab, render};
use crate::access::Viewer;
use crate::dashboard::App;
use crate::failed::{FIELDS, filter};
use crate::fields::Fields;
use crate::links::Links;
use crate::operations::{OperationKind, Started, Summary, What};
use crate::problem::Problem;
use crate::request::{Answer, Form, Request, see};
use crate::show::{Time, count, first_line};

#[derive(Template)]
#[template(path = "ask.html")]
struct Question<'p> {
    links: &'p Links,
    queue: &'p str,
    kind: OperationKind,
    filter: String,
    matched: u64,
    /// Whether these are all that match.
    all_counted: bool,
    /// Their number, to be read.
    text: String,
    fields: &'p Fields,
    query: String,
}

#[derive(Template)]
#[template(path = "operation.html")]
struct View<'p> {
    links: &'p Links,
    started: &'p Started,
    at: Time,
    progress: Progress,
    examined: String,
    settled: String,
    matched: String,
    phase: &'static str,
    end: Option<Summary>,
    may_cancel: bool,
}

/// The fields of the filter, ids included. Without any, an operation is about all failed jobs, so a
/// selection of none is an error.
fn sent_on(fields: &Fields) -> Result<Fields, Problem> {
    let selects = fields.one("selected").is_some() || fields.exact("id").is_some();
    if selects && fields.one("id").is_none() {
        return Err(Problem::invalid("No job is selected. Nothing was changed."));
    }
    let mut names = FIELDS.to_vec();
    names.push("id");
    Ok(fields.only(&names))
}

/// Asks before an operation, with the number of jobs that match now.
pub(crate) async fn ask(Path((queue, kind)): Path<(String, String)>, request: Request) -> Answer {
    let Request { app, viewer, fields, .. } = &request;
    let kind = OperationKind::parse(&kind)?;
    viewer.require(kind.action())?;
    let sent_on = sent_on(fields)?;
    let filter = filter(&sent_on, app.privacy())?;
    let shown = filter.to_string();
    let dry = kind.of(&app.client().failed(&*queue), filter).dry_run();
    let counted = dry.by(viewer.name()).await?;
    let all_counted = match counted.end {
        End::Finished => true,
        End::Lost(error) => return Err(error.into()),
        _ => false,
    };
    let matched = counted.matched;
    // The operation is about the jobs that the question counts, however long it is open.
    let asked = match counted.extent {
        Some(extent) => sent_on.clone().with("extent", extent.to_string()),
        None => sent_on.clone(),
    };
    let question = Question {
        links: app.links(),
        queue: &queue,
        kind,
        filter: shown,
        matched,
        all_counted,
        text: count(matched),
        query: sent_on.only(&FIELDS).query(),
        fields: &asked,
    };
    let title = format!("{} failed jobs of {queue}", kind.order());
    request.page(Tab::Failed, &title, &question)
}

/// Starts an operation. A discard without its confirmation leads to the question.
pub(crate) async fn start(Path((queue, kind)): Path<(String, String)>, form: Form) -> Answer {
    let Form { app, viewer, fields } = form;
    let kind = OperationKind::parse(&kind)?;
    viewer.require(kind.action())?;
    let sent_on = sent_on(&fields)?;
    if kind == OperationKind::Discard && fields.one("confirmed").is_none() {
        let question = app.links().below_queue(&queue, "failed/discard");
        return Ok(see(&(question + &sent_on.query())));
    }
    let filter = filter(&sent_on, app.privacy())?;
    let text = first_line(&filter.to_string(), 500);
    let failed = app.client().failed(&*queue);
    let mut operation = kind.of(&failed, filter).by(viewer.name());
    if let Some(extent) = fields.one("extent") {
        operation = operation.within(extent.parse()?);
    }
    if let Some(canary) = number::<u32>(&fields, "canary")?.filter(|jobs| *jobs > 0) {
        operation = operation.canary(canary);
    }
    if let Some(rate) = number::<f64>(&fields, "rate")? {
        operation = operation.rate(rate);
    }
    if fields.one("stop").is_some() {
        operation = operation.stop_on_failure();
    }
    let what = What { queue, kind, filter: text, actor: viewer.name().to_owned() };
    let (weak, theirs) = (Arc::downgrade(&app), Arc::downgrade(&app));
    let changed = move || {
        if let Some(app) = weak.upgrade() {
            app.sampler.changed();
        }
    };
    let ended = move |started: &Started, summary: &Summary| {
        if let Some(app) = theirs.upgrade() {
            app.looks.forget();
            let What { queue, kind, filter, actor } = &started.what;
            let (target, result) = (format!("{queue}: {filter}"), summary.text.clone());
            app.record(actor, kind.path(), target, result, Some(started.id));
        }
    };
    let started = app.operations.start(operation, what, changed, ended)?;
    Ok(see(&app.links().to(&format!("/operations/{}", started.id))))
}

/// A number of a form.
fn number<N: std::str::FromStr>(fields: &Fields, name: &str) -> Result<Option<N>, Problem> {
    let parse = |text: &str| text.parse();
    let parsed = fields.one(name).map(parse).transpose();
    parsed.map_err(|_| Problem::invalid(format!("The field `{name}` must be a number.")))
}

pub(crate) async fn page(Path(id): Path<String>, request: Request) -> Answer {
    let id = id.parse().map_err(|_| Problem::not_found())?;
    request.live(Page::Operation(id)).await
}

pub(crate) fn content(app: &App, viewer: &Viewer, id: u64) -> Result<String, Problem> {
    let started = app.operations.find(id).ok_or_else(gone)?;
    let progress = started.progress();
    let phase = match progress.phase {
        Phase::Settling => "going through the failed jobs",
        Phase::Canary => "waiting for the outcome of the canaries",
        Phase::Waiting => "waiting for the next pass",
        _ => "ending",
    };
    let view = View {
        links: app.links(),
        at: Time(started.at),
        examined: count(progress.examined),
        settled: count(progress.settled),
        matched: count(progress.matched),
        progress,
        phase,
        end: started.end(),
        may_cancel: viewer.may(started.what.kind.action()),
        started: &started,
    };
    render(&view)
}

pub(crate) async fn cancel(Path(id): Path<String>, form: Form) -> Answer {
    let id = id.parse().map_err(|_| Problem::not_found())?;
    let started = form.app.operations.find(id).ok_or_else(gone)?;
    form.viewer.require(started.what.kind.action())?;
    if started.end().is_none() {
        started.cancel();
        form.record("cancel operation", format!("operation {id}"), "asked to end".to_owned());
    }
    Ok(see(&form.app.links().to(&format!("/operations/{id}"))))
}

fn gone() -> Problem {
    Problem::new(
        axum::http::StatusCode::NOT_FOUND,
        "Operation not found",
        "The operation belonged to an earlier run of this process, which cancels its operations \
         when it ends. Jobs that it had retried or discarded stay so.",
    )
}
