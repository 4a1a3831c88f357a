//! The page of activities.

use askama::Template;

use super::render;
use crate::activity::Record;
use crate::dashboard::App;
use crate::links::Links;
use crate::problem::Problem;
use crate::show::Time;

#[derive(Template)]
#[template(path = "activity.html")]
struct View<'p> {
    links: &'p Links,
    records: Vec<(Time, Record)>,
}

pub(crate) fn content(app: &App) -> Result<String, Problem> {
    let records = app.activities.records();
    let records = records.into_iter().map(|record| (Time(record.at), record)).collect();
    render(&View { links: app.links(), records })
}
