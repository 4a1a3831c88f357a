//! The page of one queue, and its actions.

use std::fmt::Write as _;
use std::time::Duration;

use askama::Template;
use axum::extract::Path;
use jobq::admin::text;
use jobq::admin::{
    ConcurrencySet, Figure, Paused, Percentiles, PoolQueue, PoolReport, QueueOverview, Resumed,
};
use serde_json::value::RawValue;

use super::parts::Parts;
use super::queues::{Choice, pause_text};
use super::{Age, Page, render};
use crate::access::{Action, Viewer};
use crate::dashboard::App;
use crate::links::Links;
use crate::problem::Problem;
use crate::request::{Answer, Form, Request, see};
use crate::sampler::Sample;
use crate::show::{ShownFigure, Sign};
use crate::spark::Spark;

/// The points of the charts: an hour.
const POINTS: usize = 360;

struct PoolRow<'p> {
    name: String,
    queue: &'p PoolQueue,
    waited: Option<String>,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct View<'p> {
    links: &'p Links,
    age: Age,
    queue: &'p str,
    is_known: bool,
    state: Option<Sign>,
    pause: Option<String>,
    totals: Vec<(&'static str, ShownFigure)>,
    unknown: Vec<(String, String)>,
    parts: Option<Parts>,
    outcomes: Vec<(&'static str, ShownFigure)>,
    failed: u64,
    pools: Vec<PoolRow<'p>>,
    /// The reason why pools cannot be asked.
    unasked: Option<&'p str>,
    unaccounted: Option<u32>,
    charts: Vec<(&'static str, Spark)>,
    viewer: &'p Viewer,
}

pub(crate) async fn page(Path(queue): Path<String>, request: Request) -> Answer {
    request.live(Page::Queue(queue)).await
}

pub(crate) fn content(app: &App, viewer: &Viewer, queue: &str) -> Result<String, Problem> {
    let sample = app.sampler.now();
    let overview = sample.as_ref().and_then(|sample| sample.queue(queue));
    let reports = sample.as_ref().map(|sample| sample.pools()).unwrap_or_default();
    let points = app.sampler.history(queue, POINTS);
    let chart = |what, values: Vec<_>| (what, Spark::new(what, "hour", &values, POINTS).wide());
    let view = View {
        links: app.links(),
        age: Age::of(sample.as_deref()),
        queue,
        is_known: overview.is_some(),
        state: overview.map(|queue| queue.state.into()),
        pause: overview
            .and_then(|queue| queue.paused.known())
            .and_then(Option::as_ref)
            .map(pause_text),
        totals: overview.map(totals).unwrap_or_default(),
        unknown: overview.map(unknown).unwrap_or_default(),
        parts: overview.map(Parts::of),
        outcomes: overview.map(|overview| outcomes(overview, reports)).unwrap_or_default(),
        failed: overview.and_then(|queue| queue.failed.known().copied()).unwrap_or(0),
        pools: reports.iter().filter_map(|report| pool(report, queue)).collect(),
        unasked: sample.as_deref().and_then(Sample::unasked),
        unaccounted: overview
            .and_then(|queue| queue.unaccounted.known().copied())
            .filter(|consumers| *consumers > 0),
        charts: vec![
            chart("Ready jobs", points.iter().map(|point| point.ready).collect()),
            chart("Done a minute", points.iter().map(|point| point.completed).collect()),
        ],
        viewer,
    };
    render(&view)
}

fn totals(queue: &QueueOverview) -> Vec<(&'static str, ShownFigure)> {
    let mut totals = vec![
        ("Ready", ShownFigure::number(&queue.ready)),
        ("Waiting", ShownFigure::number(&queue.waiting)),
        ("In flight", ShownFigure::number(&queue.in_flight)),
        ("Taken ahead", ShownFigure::number(&queue.ahead)),
        ("Failed", ShownFigure::number(&queue.failed)),
        ("Pools", ShownFigure::number(&queue.pools)),
        ("Longest wait, last minute", ShownFigure::duration(&queue.waited)),
    ];
    if queue.waits != None {
        totals.push(("Waits", ShownFigure::waits(&queue.waits)));
    }
    totals
}

/// The figures that are unknown, with the reasons.
fn unknown(queue: &QueueOverview) -> Vec<(String, String)> {
    let reasons = queue.unknown().into_iter();
    reasons.map(|(name, why)| (name.replace('_', " ").replace(" ms", ""), why.to_owned())).collect()
}

/// The outcomes of the last minute, and how long attempts took: of the pools that answered.
fn outcomes(overview: &QueueOverview, reports: &[PoolReport]) -> Vec<(&'static str, ShownFigure)> {
    let minutes = || reports.iter().filter_map(|report| report.queue(&overview.queue));
    let known = |sum: u64| match &overview.completed {
        Figure::Known(_) => Figure::Known(sum),
        Figure::Unknown(why) => Figure::Unknown(why.clone()),
    };
    let figure = |sum| ShownFigure::number(&known(sum));
    let took = |percentile: fn(Percentiles) -> Duration| {
        ShownFigure::duration(&overview.durations.clone().map(|took| took.map(percentile)))
    };
    vec![
        ("completed", figure(minutes().map(|queue| queue.minute.completed).sum())),
        ("retried", figure(minutes().map(|queue| queue.minute.retried).sum())),
        ("failed for good", figure(minutes().map(|queue| queue.minute.failed).sum())),
        ("duration p50", took(|took| took.p50)),
        ("duration p95", took(|took| took.p95)),
    ]
}

fn pool<'p>(report: &'p PoolReport, queue: &str) -> Option<PoolRow<'p>> {
    let queue = report.queue(queue)?;
    let (name, waited) = (super::pools::name(report), queue.minute.waited.map(text::duration));
    Some(PoolRow { name, queue, waited })
}

/// Where a form came from: the page of all queues, if it says so, as it was.
fn back(form: &Form, queue: &str) -> String {
    match form.fields.one("back") {
        Some("queues") => Choice::of(&form.fields).address(form.app.links(), queue),
        _ => form.app.links().queue(queue),
    }
}

pub(crate) async fn pause(Path(queue): Path<String>, form: Form) -> Answer {
    form.viewer.require(Action::Pause)?;
    let why = form.fields.one("why").unwrap_or_default();
    let paused = form.admin().pause(&queue, why).await;
    let result = |paused: &Paused| {
        let still = text::still_taking(&paused.still_taking);
        still.unwrap_or_else(|| "no pool takes its jobs any more".to_owned())
    };
    let page = back(&form, &queue);
    form.acted(("pause", queue), paused, result, &page).await
}

pub(crate) async fn slots(Path(queue): Path<String>, form: Form) -> Answer {
    form.viewer.require(Action::Pools)?;
    let slots = form.fields.one("slots").and_then(|slots| slots.trim().parse::<u16>().ok());
    let slots = slots.filter(|slots| *slots > 0).ok_or_else(|| {
        Problem::invalid("The number of slots must be a whole number from 1 to 65535.")
    })?;
    let set = form.admin().set_concurrency(&queue, slots).await;
    let result = |set: &ConcurrencySet| {
        let mut text =
            format!("jobs at once in each pool: {slots} (pools changed: {})", set.pools.len());
        if let Some(refused) = set.refused.first() {
            let _ = write!(text, "; {} refused: {}", set.refused.len(), refused.why);
        }
        text
    };
    let page = form.app.links().queue(&queue);
    form.acted(("concurrency", queue), set, result, &page).await
}

pub(crate) async fn resume(Path(queue): Path<String>, form: Form) -> Answer {
    form.viewer.require(Action::Pause)?;
    let resumed = form.admin().resume(&queue).await;
    let result = |it: &Resumed| if it.was_paused { "done" } else { "it was not paused" }.to_owned();
    let page = back(&form, &queue);
    form.acted(("resume", queue), resumed, result, &page).await
}

pub(crate) async fn enqueue(Path(queue): Path<String>, form: Form) -> Answer {
    let Form { app, viewer, fields } = &form;
    viewer.require(Action::Enqueue)?;
    let name = fields.one("job").ok_or_else(|| {
        Problem::invalid("The name of the job is missing. Pools identify the job by its name.")
    })?;
    // As it is written, so that no number is rounded.
    let payload: &RawValue = serde_json::from_str(fields.one("payload").unwrap_or("null"))
        .map_err(|error| Problem::invalid(format!("The payload is not valid JSON: {error}")))?;
    let mut job = app.client().enqueue_named(name, &*queue, payload);
    if let Some(delay) = fields.one("delay") {
        job = job.delay(delay);
    }
    let enqueued = job.await;
    let result = match &enqueued {
        Ok(id) => format!("job `{name}`, id {id}"),
        Err(error) if error.maybe_enqueued() => {
            format!("job `{name}` may be in its queue nevertheless: {error}")
        }
        Err(error) => format!("job `{name}` was not enqueued: {error}"),
    };
    tracing::info!(
        target: "jobq::audit", actor = viewer.name(), action = "enqueue", queue, job = name, result,
        "job enqueued by hand"
    );
    form.record("enqueue", queue.clone(), result);
    enqueued?;
    app.sampler.refresh().await;
    Ok(see(&app.links().queue(&queue)))
}
