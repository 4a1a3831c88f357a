//! One run: what a process of its own does.

use anyhow::{Context as _, ensure};

use crate::options::Options;
use crate::scenario::{CONCURRENCY, Engine, Scenario, Side};

/// One run of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) engine: Engine,
    pub(crate) scenario: Scenario,
    pub(crate) side: Side,
    pub(crate) jobs: u32,
    pub(crate) shape: Shape,
}

/// The variables of the growth series. The other sides have the usual one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many types of jobs there are.
    pub(crate) types: u16,
    /// The payload of a job.
    pub(crate) bytes: usize,
    /// How many jobs run at once.
    pub(crate) concurrency: u16,
    /// How many more jobs are there than are measured.
    pub(crate) backlog: u32,
}

impl Shape {
    pub(crate) const USUAL: Self =
        Self { types: 1, bytes: 100, concurrency: CONCURRENCY, backlog: 0 };
}

impl Case {
    pub(crate) fn usual(engine: Engine, scenario: Scenario, side: Side, jobs: u32) -> Self {
        Self { engine, scenario, side, jobs, shape: Shape::USUAL }
    }

    /// The words of `one`, and the URL among them.
    pub(crate) fn parse(words: &[String]) -> anyhow::Result<(Self, &str)> {
        let Some(([engine, scenario, side, url, jobs], options)) = words.split_first_chunk() else {
            anyhow::bail!("expected five words, found {}\n{}", words.len(), crate::USAGE);
        };
        let mut options = Options::parse(options.to_vec())?;
        let mut number =
            |name: &str, usual: usize| options.take(name, &usual.to_string(), str::parse::<usize>);
        let shape = Shape::USUAL;
        let case = Self {
            engine: engine.parse()?,
            scenario: scenario.parse()?,
            side: side.parse()?,
            jobs: jobs.parse().with_context(|| format!("`{jobs}` is no number of jobs"))?,
            shape: Shape {
                types: number("--types", shape.types.into())?.try_into()?,
                bytes: number("--bytes", shape.bytes)?,
                concurrency: number("--concurrency", shape.concurrency.into())?.try_into()?,
                backlog: number("--backlog", shape.backlog.try_into()?)?.try_into()?,
            },
        };
        options.finish()?;
        ensure!(case.jobs > 0, "there is nothing to measure");
        let may_vary = case.side == Side::Jobq || case.shape == Shape::USUAL;
        ensure!(may_vary, "these options are for jobq");
        Ok((case, url))
    }

    /// What [`parse`](Self::parse) reads.
    pub(crate) fn words(&self, url: &str) -> Vec<String> {
        let Self { engine, scenario, side, jobs, shape } = self;
        let words = [engine.name(), scenario.name(), side.name(), url, &jobs.to_string()];
        let mut words: Vec<_> = words.map(str::to_owned).into();
        if *shape != Shape::USUAL {
            words.extend(["--types".to_owned(), shape.types.to_string()]);
            words.extend(["--bytes".to_owned(), shape.bytes.to_string()]);
            words.extend(["--concurrency".to_owned(), shape.concurrency.to_string()]);
            words.extend(["--backlog".to_owned(), shape.backlog.to_string()]);
        }
        words
    }

    /// What must run before, in another process: so the figures of a worker are a worker's.
    pub(crate) fn before(&self) -> Option<Self> {
        let backlog = self.shape.backlog;
        let jobs = match self.scenario {
            Scenario::Drain | Scenario::Retry => self.jobs + backlog,
            _ => backlog,
        };
        let shape = Shape { backlog: 0, ..self.shape };
        let before = Self { scenario: Scenario::EnqueueAll, jobs, shape, ..*self };
        (jobs > 0).then_some(before)
    }
}
