//! The page of all queues.

use std::fmt::Write as _;
use std::time::Duration;

use askama::Template;
use jobq::admin::text;
use jobq::admin::{Figure, Overview, Passage, Pause, QueueOverview, State};

use super::{Age, Page, render};
use crate::access::{Action, Viewer};
use crate::dashboard::App;
use crate::fields::Fields;
use crate::links::{Links, segment};
use crate::problem::Problem;
use crate::request::{Answer, Request};
use crate::sampler::Sample;
use crate::show::{ShownFigure, Sign, Time, count};
use crate::spark::Spark;

/// The points of a chart: five minutes.
const POINTS: usize = 30;
/// A wait of this length is too long.
const LONG: Duration = Duration::from_secs(60);
/// The most lines of what needs attention.
const ATTENTION: usize = 6;

/// Which queues are shown, and in which order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    text: String,
    sort: String,
}

impl Choice {
    pub(crate) fn of(fields: &Fields) -> Self {
        let field = |name| fields.one(name).unwrap_or_default().to_owned();
        Self { text: field("find"), sort: field("sort") }
    }

    /// The address of the page with this choice, at the line of a queue.
    pub(crate) fn address(&self, links: &Links, queue: &str) -> String {
        let fields = [("find", &self.text), ("sort", &self.sort)].into_iter();
        let query = fields
            .filter(|(_, value)| !value.is_empty())
            .fold(Fields::default(), |query, (name, value)| query.with(name, value))
            .query();
        format!("{}{query}#q-{}", links.to("/"), segment(queue))
    }

    /// The query of the page in another order.
    fn sorted_by(&self, sort: &str) -> String {
        Fields::default().with("sort", sort).with("find", &self.text).query()
    }

    fn shows(&self, queue: &QueueOverview) -> bool {
        queue.queue.contains(&self.text)
    }

    fn sort(&self, queues: &mut [&QueueOverview]) {
        let known = |read: &Figure<u64>| read.known().copied();
        // Of equals, the order by name stays.
        match &*self.sort {
            "ready" => queues.sort_by_key(|queue| std::cmp::Reverse(known(&queue.ready))),
            "waiting" => queues.sort_by_key(|queue| std::cmp::Reverse(known(&queue.waiting))),
            "running" => queues.sort_by_key(|queue| std::cmp::Reverse(known(&queue.in_flight))),
            "failed" => queues.sort_by_key(|queue| std::cmp::Reverse(known(&queue.failed))),
            "completed" => queues.sort_by_key(|queue| std::cmp::Reverse(known(&queue.completed))),
            "waited" => queues
                .sort_by_key(|queue| std::cmp::Reverse(queue.waited.known().copied().flatten())),
            "state" => queues.sort_by_key(|queue| queue.state.as_str()),
            _ => {}
        }
    }
}

/// A heading that sorts the table.
struct Heading {
    sort: &'static str,
    name: &'static str,
    class: &'static str,
}

const HEADINGS: [Heading; 9] = [
    Heading { sort: "", name: "Queue", class: "" },
    Heading { sort: "state", name: "State", class: "" },
    Heading { sort: "ready", name: "Ready", class: "n" },
    Heading { sort: "waiting", name: "Waiting", class: "n" },
    Heading { sort: "running", name: "In flight", class: "n" },
    Heading { sort: "failed", name: "Failed", class: "n" },
    Heading { sort: "pools", name: "Pools", class: "n" },
    Heading { sort: "completed", name: "Done/min", class: "n" },
    Heading { sort: "waited", name: "Waited", class: "n" },
];

struct Row<'p> {
    queue: &'p QueueOverview,
    link: String,
    pause: Option<String>,
    /// Whether it may be paused and resumed. Both if it is unknown whether it is paused.
    pauses: bool,
    resumes: bool,
    spark: Spark,
}

/// What somebody should look at.
#[derive(Debug, PartialEq, Eq)]
struct Attention {
    queue: String,
    text: String,
    is_failed: bool,
}

#[derive(Template)]
#[template(path = "queues.html")]
struct View<'p> {
    links: &'p Links,
    age: Age,
    choice: &'p Choice,
    rows: Vec<Row<'p>>,
    hidden: usize,
    totals: Vec<(&'static str, ShownFigure)>,
    /// Whether jobs come out of the delay levels, if they certainly do not do so in time.
    levels: Option<Sign>,
    attention: Vec<Attention>,
    more_attention: usize,
    errors: Vec<String>,
    sources: String,
    complete: bool,
    may_pause: bool,
}

pub(crate) async fn page(request: Request) -> Answer {
    let choice = Choice::of(&request.fields);
    request.live(Page::Queues(choice)).await
}

pub(crate) fn content(app: &App, viewer: &Viewer, choice: &Choice) -> Result<String, Problem> {
    let sample = app.sampler.now();
    let overview = sample.as_deref().and_then(Sample::overview);
    let queues = sample.as_deref().map(Sample::queues).unwrap_or_default();
    let mut shown: Vec<_> = queues.iter().filter(|queue| choice.shows(queue)).collect();
    choice.sort(&mut shown);
    let mut attention: Vec<_> = queues.iter().flat_map(attention).collect();
    attention.sort_by_key(|line| line.is_failed);
    let more_attention = attention.len().saturating_sub(ATTENTION);
    attention.truncate(ATTENTION);
    let view = View {
        links: app.links(),
        age: Age::of(sample.as_deref()),
        choice,
        hidden: queues.len() - shown.len(),
        rows: shown.into_iter().map(|queue| row(app, queue)).collect(),
        totals: totals(overview),
        levels: overview.and_then(|overview| Sign::of_waits(&overview.levels)),
        attention,
        more_attention,
        errors: errors(app),
        sources: overview.map(|overview| overview.sources.join(", ")).unwrap_or_default(),
        complete: overview.is_none_or(|overview| overview.complete),
        may_pause: viewer.may(Action::Pause),
    };
    render(&view)
}

fn row<'p>(app: &App, queue: &'p QueueOverview) -> Row<'p> {
    let points: Vec<_> =
        app.sampler.history(&queue.queue, POINTS).iter().map(|point| point.ready).collect();
    let paused = queue.paused.known();
    Row {
        queue,
        link: app.links().queue(&queue.queue),
        pause: paused.and_then(Option::as_ref).map(pause_text),
        pauses: paused.is_none_or(Option::is_none),
        resumes: paused.is_none_or(Option::is_some),
        spark: Spark::new("Ready jobs", "five minutes", &points, POINTS),
    }
}

/// Who paused a queue, when and why.
pub(crate) fn pause_text(pause: &Pause) -> String {
    let mut text = String::new();
    if let Some(by) = &pause.by {
        let _ = write!(text, "by {by} ");
    }
    if let Some(since) = pause.since {
        let _ = write!(text, "at {}", Time(since).text());
    }
    if let Some(why) = pause.why.as_ref().filter(|why| !why.is_empty()) {
        let _ = write!(text, ": {why}");
    }
    text
}

/// The sums of all queues. They are unknown where no queue is known and there may be some.
fn totals(overview: Option<&Overview>) -> Vec<(&'static str, ShownFigure)> {
    let none = || match overview {
        None => Figure::unknown("the queues have not been read"),
        Some(Overview { queues, complete: false, incomplete, .. }) if queues.is_empty() => {
            Figure::unknown(incomplete.clone().unwrap_or_else(|| "no queue is known".to_owned()))
        }
        Some(_) => Figure::Known(0),
    };
    let queues = overview.map(|overview| &overview.queues[..]).unwrap_or_default();
    let sum = |figure: fn(&QueueOverview) -> &Figure<u64>| {
        let mut sum = none();
        for queue in queues {
            sum = sum.zip(figure(queue).clone(), |sum, more| sum + more);
        }
        ShownFigure::number(&sum)
    };
    let mut totals = vec![
        ("Queues", ShownFigure::number(&none().map(|_: u64| queues.len() as u64))),
        ("Ready", sum(|queue| &queue.ready)),
        ("Waiting", sum(|queue| &queue.waiting)),
        ("In flight", sum(|queue| &queue.in_flight)),
        ("Failed", sum(|queue| &queue.failed)),
        ("Done in the last minute", sum(|queue| &queue.completed)),
    ];
    // Of no single queue, and so in none of the sums.
    if let Some(levels) = overview.map(|overview| &overview.in_levels).filter(|jobs| **jobs != 0) {
        totals.insert(3, ("In the delay levels", ShownFigure::number(levels)));
    }
    totals
}

/// What of a queue somebody should look at.
fn attention(queue: &QueueOverview) -> Vec<Attention> {
    let ready = queue.ready.known().copied();
    // Left out where the number is unknown, or where pools have taken all of them.
    let are_ready = |text: &str| match ready {
        Some(ready @ 1..) => format!("{text}, and {} jobs are ready", count(ready)),
        _ => text.to_owned(),
    };
    let waited = queue.waited.known().copied().flatten().unwrap_or_default();
    let state = match queue.state {
        State::Unattended if queue.ready > 0 => Some(are_ready("has no pool")),
        State::Halted => Some("has pools, but none of them takes jobs".to_owned()),
        State::Stuck => Some(are_ready(
            "is stuck: each slot of its pools has held one attempt for more than a minute",
        )),
        State::Withheld => {
            let ahead = match queue.ahead.known().copied() {
                Some(ahead @ 1..) => count(ahead),
                _ => "some".to_owned(),
            };
            Some(format!(
                "has a pool that holds jobs back: {ahead} are taken ahead, and its slots have held \
                 one attempt each for more than a minute"
            ))
        }
        State::Consumed if waited >= LONG => {
            let waited = text::duration(waited);
            Some(are_ready(&format!("is behind: a job waited {waited} in the last minute")))
        }
        State::Consumed => {
            let both = ready.zip(queue.completed.known().copied());
            let behind = both.filter(|(ready, done)| *ready >= 20 && *ready > 2 * done);
            behind.map(|(ready, _)| {
                let ready = count(ready);
                format!("is behind: {ready} jobs are ready, more than two minutes of work")
            })
        }
        _ => None,
    };
    let waits = (queue.waits == Some(Passage::Stuck))
        .then(|| "has waiting jobs that do not come through".to_owned());
    let failed = queue.failed.known().copied().filter(|failed| *failed > 0).map(|failed| {
        let jobs = if failed == 1 { "job" } else { "jobs" };
        format!("has {} failed {jobs}", count(failed))
    });
    let line = |is_failed| move |text| Attention { queue: queue.queue.clone(), text, is_failed };
    let others = state.into_iter().chain(waits).map(line(false));
    others.chain(failed.map(line(true))).collect()
}

/// The doctor's errors, or why there is no report.
fn errors(app: &App) -> Vec<String> {
    match app.sampler.examination().as_ref().map(|examination| &examination.report) {
        None => Vec::new(),
        Some(Ok(report)) => {
            let text = |finding: &jobq::Finding| format!("{}: {}", finding.about(), finding.what());
            report.errors().map(text).collect()
        }
        Some(Err(why)) => vec![format!("The examination failed: {why}")],
    }
}
