//! The queues with failed jobs.

use askama::Template;

use super::{Age, render};
use crate::dashboard::App;
use crate::links::Links;
use crate::problem::Problem;
use crate::sampler::Sample;
use crate::show::count;

#[derive(Template)]
#[template(path = "failed_queues.html")]
struct View<'p> {
    links: &'p Links,
    age: Age,
    /// Each queue with its number of failed jobs.
    queues: Vec<(String, String)>,
    unknown: Vec<(String, String)>,
    others: usize,
}

pub(crate) fn content(app: &App) -> Result<String, Problem> {
    let sample = app.sampler.now();
    let all = sample.as_deref().map(Sample::queues).unwrap_or_default();
    let mut failed: Vec<_> = all
        .iter()
        .filter_map(|queue| Some((queue.queue.clone(), *queue.failed.known()?)))
        .filter(|(_, failed)| *failed > 0)
        .collect();
    failed.sort_by_key(|(_, failed)| std::cmp::Reverse(*failed));
    let unknown: Vec<_> = all
        .iter()
        .filter_map(|queue| Some((queue.queue.clone(), queue.failed.why()?.to_owned())))
        .collect();
    let view = View {
        links: app.links(),
        age: Age::of(sample.as_deref()),
        others: all.len() - failed.len() - unknown.len(),
        queues: failed.into_iter().map(|(queue, failed)| (queue, count(failed))).collect(),
        unknown,
    };
    render(&view)
}
