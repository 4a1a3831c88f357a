//! The page of one failed job.

use askama::Template;
use axum::extract::Path;
use jobq::{FailedJob, JobId};

use super::Tab;
use crate::access::Action;
use crate::links::Links;
use crate::payload;
use crate::problem::Problem;
use crate::request::{Answer, Request};
use crate::show::{Time, count};

#[derive(Template)]
#[template(path = "failed_job.html")]
struct View<'p> {
    links: &'p Links,
    queue: &'p str,
    job: &'p FailedJob,
    failed_at: Time,
    enqueued_at: Time,
    headers: Vec<(&'p str, &'p str)>,
    trace: Option<&'p str>,
    /// `None` if payloads are not shown.
    payload: Option<String>,
    size: String,
    commands: Vec<String>,
    may_retry: bool,
    may_discard: bool,
}

pub(crate) async fn page(Path((queue, id)): Path<(String, String)>, request: Request) -> Answer {
    let Request { app, viewer, .. } = &request;
    let id: JobId = id.parse().map_err(|_| Problem::not_found())?;
    let job = app.client().failed(&*queue).show(id).await?;
    let payload = app.privacy().shown.then(|| match job.payload_text() {
        Some(text) => payload::tree(text, app.privacy()),
        None => payload::bytes(job.payload_bytes().len(), job.content_encoding()),
    });
    let view = View {
        links: app.links(),
        queue: &queue,
        failed_at: Time(job.failed_at()),
        enqueued_at: Time(job.enqueued_at()),
        headers: job.headers().iter().collect(),
        trace: job.header("traceparent").and_then(|parent| parent.split('-').nth(1)),
        payload,
        size: count(job.payload_bytes().len() as u64),
        commands: ["show", "retry"].map(|what| command(what, &queue, id)).to_vec(),
        may_retry: viewer.may(Action::Retry),
        may_discard: viewer.may(Action::Discard),
        job: &job,
    };
    request.page(Tab::Failed, &format!("Failed job {id}"), &view)
}

/// The same with the command `jobq`.
fn command(what: &str, queue: &str, id: JobId) -> String {
    match what {
        "show" => format!("jobq failed show {queue} {id}"),
        _ => format!("jobq failed {what} {queue} --id {id}"),
    }
}
