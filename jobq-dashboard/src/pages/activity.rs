//! The page of activities.

use askama::Template;
use axum::response::Response;

use super::{Page, render};
use crate::activity::Record;
use crate::dashboard::App;
use crate::links::Links;
use crate::live;
use crate::problem::Problem;
use crate::show::Time;

#[derive(Template)]
#[template(path = "activity.html")]
struct View<'p> {
    links: &'p Links,
    records: Vec<(Time, Record)>,
}

pub(crate) async fn page(request: live::Request) -> Result<Response, Problem> {
    request.answer(Page::Activity).await
}

pub(crate) fn content(app: &App) -> Result<String, Problem> {
    let records = app.activities.records();
    let records = records.into_iter().map(|record| (Time(record.at), record)).collect();
    render(&View { links: app.links(), records })
}
