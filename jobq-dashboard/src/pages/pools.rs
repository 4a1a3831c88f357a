//! The pools with their running jobs, and orders to them.

use std::time::SystemTime;

use askama::Template;
use axum::extract::Path;
use jobq::JobId;
use jobq::admin::text;
use jobq::admin::{Cancelled, Order, PoolId, PoolQueue, PoolRelay, PoolReport, RunningJob};

use super::{Age, Page, Tab, render};
use crate::access::{Action, Viewer};
use crate::dashboard::App;
use crate::links::{Links, segment};
use crate::problem::Problem;
use crate::request::{Answer, Form, Request, see};
use crate::sampler::Sample;
use crate::show::{ShownFigure, Sign, Time};

/// The most running jobs of a pool that are shown.
const RUNNING: usize = 50;
/// The offset of a clock that disturbs jobs with `expires`, in milliseconds.
const LARGE_OFFSET: u64 = 1_000;

struct JobRow<'p> {
    queue: &'p str,
    job: &'p RunningJob,
    /// How long it has run, and its timeout.
    time: String,
    /// Whether it was told to end, and its function goes on.
    is_lost: bool,
}

struct PoolView<'p> {
    report: &'p PoolReport,
    name: String,
    is_other_version: bool,
    up: String,
    /// How far its clock differs, if it certainly does, with the class of its colour.
    clock: Option<(String, &'static str)>,
    memory: ShownFigure,
    /// Its queues, with how long each has had its state.
    queues: Vec<(&'p PoolQueue, Option<String>)>,
    /// Its relays, with the rows that they have left.
    relays: Vec<(&'p PoolRelay, String)>,
    jobs: Vec<JobRow<'p>>,
    running: usize,
    lost: usize,
    more_jobs: usize,
}

#[derive(Template)]
#[template(path = "pools.html")]
struct View<'p> {
    links: &'p Links,
    age: Age,
    queue: Option<&'p str>,
    pools: Vec<PoolView<'p>>,
    versions: usize,
    slots: u32,
    running: usize,
    /// The reason why pools cannot be asked.
    unasked: Option<&'p str>,
    /// Consumers that belong to no pool that answered.
    unaccounted: u32,
    may_steer: bool,
}

#[derive(Template)]
#[template(path = "ask_stop.html")]
struct Question<'p> {
    links: &'p Links,
    pool: PoolId,
    name: String,
    queues: Vec<String>,
}

pub(crate) async fn page(request: Request) -> Answer {
    let queue = request.fields.one("queue").map(str::to_owned);
    request.live(Page::Pools(queue)).await
}

pub(crate) fn content(app: &App, viewer: &Viewer, queue: Option<&str>) -> Result<String, Problem> {
    let sample = app.sampler.now();
    let sample = sample.as_deref();
    let all = sample.map(Sample::pools).unwrap_or_default();
    let taken_at =
        sample.and_then(|sample| sample.figures.as_ref()).map(|figures| figures.taken_at);
    let works = |report: &&PoolReport| queue.is_none_or(|queue| report.queue(queue).is_some());
    let newest = all.iter().map(|report| version(&report.version)).max();
    let pools: Vec<_> = all
        .iter()
        .filter(works)
        .map(|report| {
            let is_other = Some(version(&report.version)) != newest;
            view(report, is_other, taken_at.unwrap_or_else(SystemTime::now))
        })
        .collect();
    let mut versions: Vec<_> = all.iter().map(|report| &report.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let unaccounted = sample.map(Sample::queues).unwrap_or_default().iter();
    let queues = || pools.iter().flat_map(|pool| &pool.report.queues);
    let view = View {
        links: app.links(),
        age: Age::of(sample),
        queue,
        versions: versions.len(),
        slots: queues().map(|queue| queue.slots).sum(),
        running: queues().map(|queue| queue.running.len()).sum(),
        unasked: sample.and_then(Sample::unasked),
        unaccounted: unaccounted.filter_map(|queue| queue.unaccounted.known()).sum(),
        may_steer: viewer.may(Action::Pools),
        pools,
    };
    render(&view)
}

/// The numbers of a version, for comparing.
fn version(text: &str) -> Vec<u64> {
    text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// The place of a pool, and the end of its id: a process may have several.
pub(crate) fn name(report: &PoolReport) -> String {
    let id = report.pool.to_string();
    format!("{}:{} · {}", report.host, report.pid, &id[id.len() - 4..])
}

fn view(report: &PoolReport, is_other_version: bool, now: SystemTime) -> PoolView<'_> {
    let attempts = |of: fn(&PoolQueue) -> &[RunningJob], is_lost| {
        let of_queue = |queue| of(queue).iter().map(move |job| JobRow::of(queue, job, is_lost));
        let mut jobs: Vec<_> = report.queues.iter().flat_map(of_queue).collect();
        jobs.sort_by_key(|row| std::cmp::Reverse(row.job.running));
        jobs
    };
    let lost = attempts(|queue| &queue.lost, true);
    let running = attempts(|queue| &queue.running, false);
    // Its times are by its own clock.
    let now = report.reported_at.unwrap_or(now);
    let age = |queue: &PoolQueue| queue.since.map(|since| Time(since).age(now));
    PoolView {
        report,
        name: name(report),
        is_other_version,
        up: Time(report.started_at).age(now),
        clock: report.clock_offset_ms.map(clock),
        memory: ShownFigure::memory(report.memory_bytes),
        queues: report.queues.iter().map(|queue| (queue, age(queue))).collect(),
        relays: report.relays.iter().map(|relay| (relay, text::backlog(relay))).collect(),
        running: running.len(),
        lost: lost.len(),
        more_jobs: (lost.len() + running.len()).saturating_sub(RUNNING),
        jobs: lost.into_iter().chain(running).take(RUNNING).collect(),
    }
}

/// How far a clock is ahead of this machine's, in milliseconds.
fn clock(ahead: i64) -> (String, &'static str) {
    let class = if ahead.unsigned_abs() > LARGE_OFFSET { "state bad" } else { "quiet" };
    (text::clock(ahead), class)
}

impl<'p> JobRow<'p> {
    fn of(queue: &'p PoolQueue, job: &'p RunningJob, is_lost: bool) -> Self {
        Self { queue: &queue.queue, job, time: text::running(job), is_lost }
    }
}

pub(crate) async fn quiet(Path(pool): Path<String>, form: Form) -> Answer {
    tell(&form, &pool, Order::Quiet).await
}

pub(crate) async fn stop(Path(pool): Path<String>, form: Form) -> Answer {
    if form.fields.one("confirmed").is_none() {
        form.viewer.require(Action::Pools)?;
        return Ok(see(&form.app.links().to(&format!("/pools/{}/stop", segment(&pool)))));
    }
    tell(&form, &pool, Order::Stop).await
}

/// Asks before a pool is shut down.
pub(crate) async fn ask_stop(Path(pool): Path<String>, request: Request) -> Answer {
    request.viewer.require(Action::Pools)?;
    let pool: PoolId = pool.parse()?;
    let sample = request.app.sampler.now();
    let report =
        sample.as_ref().and_then(|sample| sample.pools().iter().find(|report| report.pool == pool));
    let question = Question {
        links: request.app.links(),
        pool,
        name: report.map_or_else(|| pool.to_string(), name),
        queues: report
            .map(|report| report.queues.iter().map(|queue| queue.queue.clone()).collect())
            .unwrap_or_default(),
    };
    request.page(Tab::Pools, "Stop a pool", &question)
}

async fn tell(form: &Form, pool: &str, order: Order) -> Answer {
    form.viewer.require(Action::Pools)?;
    let pool: PoolId = pool.parse()?;
    let told = form.admin().tell(pool, order).await;
    let result = |(): &()| "in progress".to_owned();
    let (action, page) = ((order.as_str(), format!("pool {pool}")), form.app.links().to("/pools"));
    form.acted(action, told, result, &page).await
}

pub(crate) async fn cancel(Path(id): Path<String>, form: Form) -> Answer {
    form.viewer.require(Action::Pools)?;
    let id: JobId = id.parse().map_err(|_| Problem::invalid("The job id must be a UUID."))?;
    let cancelled = form.admin().cancel_running(id).await;
    let text = |cancelled: &Cancelled| text::cancel(cancelled.cancel);
    let result = |all: &Vec<_>| all.iter().map(text).collect::<Vec<_>>().join(", ");
    let (action, page) = (("cancel", format!("running job {id}")), form.app.links().to("/pools"));
    form.acted(action, cancelled, result, &page).await
}
