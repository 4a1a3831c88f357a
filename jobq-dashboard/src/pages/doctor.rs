//! What the doctor found.

use askama::Template;
use jobq::{Finding, Report};

use super::Tab;
use crate::links::Links;
use crate::request::{Answer, Request};
use crate::sampler;
use crate::show::{Sign, Time};
use crate::topology::Comparison;

#[derive(Template)]
#[template(path = "doctor.html")]
struct View<'p> {
    links: &'p Links,
    at: Option<String>,
    version: Option<&'p str>,
    findings: &'p [Finding],
    problem: Option<&'p String>,
    comparison: &'p Comparison,
}

pub(crate) async fn page(request: Request) -> Answer {
    let app = &request.app;
    if request.fields.one("again").is_some() || app.sampler.examination().is_none() {
        sampler::examine(app).await;
    }
    let examination = app.sampler.examination();
    let examination = examination.as_deref();
    let read = examination.map(|examination| examination.report.as_ref());
    let report = read.and_then(Result::ok);
    let comparison = examination.map(|examination| &examination.comparison);
    let view = View {
        links: app.links(),
        at: examination.map(|examination| Time(examination.at).text()),
        version: report.and_then(Report::version),
        findings: report.map(Report::findings).unwrap_or_default(),
        problem: read.and_then(Result::err),
        comparison: comparison.unwrap_or(&Comparison::NotDeclared),
    };
    request.page(Tab::Doctor, "Doctor", &view)
}
