//! The failed jobs of a queue: groups, filters and rows.

use std::sync::Arc;

use askama::Template;
use axum::extract::Path;
use jobq::FailedReason;
use jobq::admin::Group;

use super::Tab;
use crate::access::{Action, Viewer};
use crate::failed::{FIELDS, Look, Row};
use crate::fields::Fields;
use crate::links::Links;
use crate::operations::Started;
use crate::problem::Problem;
use crate::request::{Answer, Request};
use crate::show::{Time, count};

struct GroupRow {
    job: String,
    reason: FailedReason,
    error: String,
    count: String,
    first_at: Time,
    last_at: Time,
    query: String,
}

#[derive(Template)]
#[template(path = "failed.html")]
struct View<'p> {
    links: &'p Links,
    queue: &'p str,
    fields: &'p Fields,
    query: String,
    problem: Option<Problem>,
    groups: Option<Vec<GroupRow>>,
    /// Whether all failed jobs are in the groups and in the further ones.
    all_grouped: bool,
    other: u64,
    rows: &'p [Row],
    matching: String,
    complete: bool,
    as_of: Option<String>,
    next: Option<String>,
    running: Vec<Arc<Started>>,
    viewer: &'p Viewer,
    shows_payloads: bool,
}

impl View<'_> {
    fn is_filtered(&self) -> bool {
        !self.fields.pairs().is_empty()
    }

    fn may_retry(&self) -> bool {
        self.viewer.may(Action::Retry)
    }

    fn may_discard(&self) -> bool {
        self.viewer.may(Action::Discard)
    }
}

pub(crate) async fn page(Path(queue): Path<String>, request: Request) -> Answer {
    let Request { app, viewer, fields, .. } = &request;
    let look = app.looks.look(app.client(), &queue, fields, app.privacy()).await;
    let filter = fields.only(&FIELDS);
    let (look, problem) = match look {
        Ok(look) => (Some(look), None),
        Err(problem) => (None, Some(problem)),
    };
    let status = problem.as_ref().map(|problem| problem.status).unwrap_or_default();
    let look = look.as_deref();
    let next = look.and_then(|look| look.next);
    let view = View {
        links: app.links(),
        queue: &queue,
        query: filter.query(),
        fields: &filter,
        problem,
        groups: look.and_then(|look| groups(look, &filter)),
        all_grouped: look
            .and_then(|look| look.groups.as_ref())
            .is_none_or(|groups| groups.complete),
        other: look.and_then(|look| look.groups.as_ref()).map_or(0, |groups| groups.other),
        rows: look.map(|look| &look.rows[..]).unwrap_or_default(),
        matching: look.map(|look| count(look.matching)).unwrap_or_default(),
        complete: look.is_none_or(|look| look.complete),
        as_of: look.map(|look| Time(look.as_of).of_day()),
        next: next.map(|next| filter.clone().with("after", next.to_string()).query()),
        running: app.operations.of_queue(&queue),
        viewer,
        shows_payloads: app.privacy().shown,
    };
    let mut page = request.page(Tab::Failed, &format!("Failed jobs of {queue}"), &view)?;
    *page.status_mut() = status;
    Ok(page)
}

fn groups(look: &Look, filter: &Fields) -> Option<Vec<GroupRow>> {
    let rows = look.groups.as_ref()?.groups.iter();
    Some(rows.map(|group| group_row(group, filter)).collect())
}

fn group_row(group: &Group, filter: &Fields) -> GroupRow {
    let narrower = filter.clone().with("reason", group.reason.as_str());
    let narrower = match &*group.job {
        "" => narrower.with("unnamed", "1"),
        job => narrower.with("job", job),
    };
    let narrower = match &*group.error {
        "" => narrower.with("textless", "1"),
        error => narrower.with("pattern", error),
    };
    GroupRow {
        job: group.job.clone(),
        reason: group.reason,
        error: group.error.clone(),
        count: count(group.count),
        first_at: Time(group.first_at),
        last_at: Time(group.last_at),
        query: narrower.query(),
    }
}
