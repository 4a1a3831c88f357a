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
    records: Vec<Record>,
}

pub(crate) fn content(app: &App) -> Result<String, Problem> {
    render(&View { links: app.links(), records: app.activities.records() })
}
