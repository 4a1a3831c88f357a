//! The frame around the content of every page.

use askama::Template;

use super::{TABS, Tab};
use crate::access::Viewer;
use crate::dashboard::App;
use crate::links::Links;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "layout.html")]
struct Layout<'p> {
    title: &'p str,
    content: &'p str,
    links: &'p Links,
    tab: Tab,
    actor: Option<&'p str>,
    may_act: bool,
    live: bool,
    /// Whether there are no figures yet.
    waits: bool,
    version: &'static str,
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemView<'p> {
    problem: &'p Problem,
}

/// The page of a problem.
pub(crate) fn problem(app: &App, viewer: Option<&Viewer>, problem: &Problem) -> String {
    let content = ProblemView { problem }.render().unwrap_or_default();
    page(app, viewer, Tab::None, &problem.title, &content, false)
}

/// A whole page.
pub(crate) fn page(
    app: &App,
    viewer: Option<&Viewer>,
    tab: Tab,
    title: &str,
    content: &str,
    live: bool,
) -> String {
    let layout = Layout {
        title,
        content,
        links: app.links(),
        tab,
        actor: viewer.and_then(|viewer| viewer.actor.as_deref()),
        may_act: viewer.is_some_and(Viewer::may_act),
        live,
        waits: live && app.sampler.now().is_none(),
        version: env!("CARGO_PKG_VERSION"),
    };
    layout.render().unwrap_or_default()
}
