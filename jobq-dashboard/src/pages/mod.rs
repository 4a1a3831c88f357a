//! The pages.

pub(crate) mod activity;
pub(crate) mod doctor;
pub(crate) mod failed;
pub(crate) mod failed_job;
pub(crate) mod failed_queues;
pub(crate) mod layout;
pub(crate) mod operation;
pub(crate) mod parts;
pub(crate) mod pools;
pub(crate) mod queue;
pub(crate) mod queues;
pub(crate) mod schedules;

use askama::Template;
use axum::http::{StatusCode, Uri};

use crate::access::Viewer;
use crate::dashboard::App;
use crate::problem::Problem;
use crate::request::{Answer, Request};
use crate::sampler::Sample;
use crate::show::Time;

/// A part of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Queues,
    Failed,
    Pools,
    Schedules,
    Doctor,
    Activity,
    None,
}

/// The navigation.
pub(crate) const TABS: [(Tab, &str, &str); 6] = [
    (Tab::Queues, "/", "Queues"),
    (Tab::Failed, "/failed", "Failed"),
    (Tab::Pools, "/pools", "Pools"),
    (Tab::Schedules, "/schedules", "Schedules"),
    (Tab::Doctor, "/doctor", "Doctor"),
    (Tab::Activity, "/activity", "Activity"),
];

/// A page that is live.
#[derive(Debug, Clone)]
pub(crate) enum Page {
    Queues(queues::Choice),
    Queue(String),
    FailedQueues,
    Pools(Option<String>),
    Operation(u64),
    Activity,
}

impl Page {
    /// Its place in the navigation, and its title.
    pub(crate) fn heading(&self) -> (Tab, String) {
        match self {
            Self::Queues(_) => (Tab::Queues, "Queues".to_owned()),
            Self::Queue(queue) => (Tab::Queues, format!("Queue {queue}")),
            Self::FailedQueues => (Tab::Failed, "Failed jobs".to_owned()),
            Self::Pools(_) => (Tab::Pools, "Pools".to_owned()),
            Self::Operation(id) => (Tab::Failed, format!("Operation {id}")),
            Self::Activity => (Tab::Activity, "Activity".to_owned()),
        }
    }

    /// The part of the page that changes.
    pub(crate) fn content(&self, app: &App, viewer: &Viewer) -> Result<String, Problem> {
        match self {
            Self::Queues(choice) => queues::content(app, viewer, choice),
            Self::Queue(queue) => queue::content(app, viewer, queue),
            Self::FailedQueues => failed_queues::content(app),
            Self::Pools(queue) => pools::content(app, viewer, queue.as_deref()),
            Self::Operation(id) => operation::content(app, viewer, *id),
            Self::Activity => activity::content(app),
        }
    }
}

/// The age of figures, and what prevents newer ones.
#[derive(Debug, Template)]
#[template(path = "age.html")]
pub(crate) struct Age {
    taken_at: Option<String>,
    trouble: Option<(String, String)>,
}

impl Age {
    pub(crate) fn of(sample: Option<&Sample>) -> Self {
        let figures = sample.and_then(|sample| sample.figures.as_ref());
        let trouble = match sample {
            None => Some(("The broker has not answered yet.".to_owned(), String::new())),
            Some(sample) => sample
                .trouble
                .as_ref()
                .map(|trouble| (trouble.why.clone(), Time(trouble.since).of_day())),
        };
        Self { taken_at: figures.map(|figures| Time(figures.taken_at).of_day()), trouble }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.trouble.is_some()
    }
}

/// Renders a template.
pub(crate) fn render(template: &impl Template) -> Result<String, Problem> {
    template.render().map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The page is broken", error.to_string())
    })
}

/// The queues with a `/` behind the prefix, and pages that do not exist.
pub(crate) async fn fallback(uri: Uri, request: Request) -> Answer {
    match uri.path() {
        "" | "/" => queues::page(request).await,
        _ => Err(Problem::not_found()),
    }
}
