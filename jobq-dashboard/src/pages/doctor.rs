//! What the doctor found.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use jobq::Report;

use super::{Tab, layout, render};
use crate::access::Viewer;
use crate::dashboard::App;
use crate::fields::Query;
use crate::links::Links;
use crate::problem::Problem;
use crate::sampler;
use crate::show::{Sign, Time};
use crate::topology::{Comparison, Part};

struct Row {
    severity: Sign,
    about: String,
    what: String,
    why: String,
    advice: String,
}

#[derive(Template)]
#[template(path = "doctor.html")]
struct View<'p> {
    links: &'p Links,
    at: Option<String>,
    version: Option<String>,
    rows: Vec<Row>,
    problem: Option<String>,
    comparison: &'p Comparison,
}

impl View<'_> {
    /// The parts that are not certainly as declared, with signs of how they are.
    fn parts(&self) -> Vec<(Sign, &Part)> {
        match self.comparison {
            Comparison::Parts(parts) => {
                parts.iter().map(|part| (part.state.into(), part)).collect()
            }
            _ => Vec::new(),
        }
    }
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    Query(fields): Query,
) -> Result<Response, Problem> {
    if fields.one("again").is_some() || app.sampler.examination().is_none() {
        sampler::examine(&app).await;
    }
    let examination = app.sampler.examination();
    let report = examination.as_ref().map(|examination| &examination.report);
    let sound = report.and_then(|report| report.as_ref().ok());
    let view = View {
        links: app.links(),
        at: examination.as_ref().map(|examination| Time(examination.at).text()),
        version: sound.and_then(Report::version).map(str::to_owned),
        rows: sound.map(rows).unwrap_or_default(),
        problem: report.and_then(|report| report.as_ref().err()).cloned(),
        comparison: examination
            .as_ref()
            .map_or(&Comparison::NotDeclared, |examination| &examination.comparison),
    };
    let content = render(&view)?;
    Ok(Html(layout::page(&app, &viewer, Tab::Doctor, "Doctor", &content, false)).into_response())
}

fn rows(report: &Report) -> Vec<Row> {
    let row = |finding: &jobq::Finding| Row {
        severity: finding.severity().into(),
        about: finding.about().to_owned(),
        what: finding.what().to_owned(),
        why: finding.why().to_owned(),
        advice: finding.advice().to_owned(),
    };
    report.findings().iter().map(row).collect()
}
