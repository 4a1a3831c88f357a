//! What the doctor found.

use askama::Template;
use jobq::Report;

use super::Tab;
use crate::links::Links;
use crate::request::{Answer, Request};
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

pub(crate) async fn page(request: Request) -> Answer {
    let app = &request.app;
    if request.fields.one("again").is_some() || app.sampler.examination().is_none() {
        sampler::examine(app).await;
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
    request.page(Tab::Doctor, "Doctor", &view)
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
