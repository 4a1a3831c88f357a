//! How the cost of a job grows with what there is of everything else.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use anyhow::ensure;

use crate::case::{Case, Shape};
use crate::options::Options;
use crate::plot::{self, Line};
use crate::process::{Store, Under};
use crate::sample::Sample;
use crate::scenario::{Engine, Scenario, Side};
use jobq_tests::measured::table::{head, median, number, row};

/// What is varied.
#[derive(Debug, Clone, Copy)]
enum Series {
    Types,
    Backlog,
    Payload,
    Concurrency,
}

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: u32,
    /// A twentieth of the jobs, and a hundredth of the backlog.
    pub(crate) quick: bool,
}

/// A series on an engine.
#[derive(Debug)]
pub(crate) struct Found {
    series: Series,
    engine: Engine,
    labels: Vec<String>,
    /// What each scenario came to at each label: the middle one of the rounds.
    lines: Vec<(Scenario, Vec<Figures>)>,
}

/// Microseconds a job, and memory.
#[derive(Debug, Clone, Copy)]
struct Figures {
    time: f64,
    cpu: f64,
    megabytes: f64,
}

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let plan = Plan::take(&mut options)?;
    let folder = options.take("--plots", ".", str::parse::<PathBuf>)?;
    options.finish()?;
    let found = measure(&plan).await?;
    for found in &found {
        let file = folder.join(found.file());
        std::fs::write(&file, found.plot()?)?;
        println!("{}\nPlot: {}\n", found.table(), file.display());
    }
    Ok(())
}

impl Plan {
    pub(crate) fn take(options: &mut Options) -> anyhow::Result<Self> {
        let plan = Self {
            rounds: options.take("--rounds", "3", str::parse)?,
            quick: options.flag("--quick")?,
        };
        ensure!(plan.rounds > 0, "there is nothing to measure");
        Ok(plan)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = if self.quick { "with few jobs, for trying" } else { "in full" };
        write!(f, "growth {extent}, the middle one of {} rounds", self.rounds)
    }
}

impl Series {
    const ALL: [Self; 4] = [Self::Types, Self::Backlog, Self::Payload, Self::Concurrency];

    fn name(self) -> &'static str {
        match self {
            Self::Types => "types",
            Self::Backlog => "backlog",
            Self::Payload => "payload",
            Self::Concurrency => "concurrency",
        }
    }

    fn axis(self) -> &'static str {
        match self {
            Self::Types => "types of jobs in one queue",
            Self::Backlog => "jobs that wait beside those measured",
            Self::Payload => "bytes of a payload",
            Self::Concurrency => "jobs at once",
        }
    }

    fn values(self, quick: bool) -> Vec<u32> {
        match self {
            Self::Types | Self::Concurrency => vec![1, 10, 100, 1_000],
            Self::Backlog if quick => vec![0, 1_000, 10_000],
            Self::Backlog => vec![0, 100_000, 1_000_000],
            Self::Payload => vec![100, 1_000, 10_000, 100_000, 1_000_000],
        }
    }

    /// What has to do with it.
    fn scenarios(self) -> &'static [Scenario] {
        match self {
            Self::Types | Self::Concurrency => &[Scenario::Drain],
            Self::Backlog | Self::Payload => &[Scenario::Enqueue, Scenario::Drain],
        }
    }

    fn shape(self, value: u32) -> anyhow::Result<Shape> {
        let mut shape = Shape::USUAL;
        match self {
            Self::Types => shape.types = value.try_into()?,
            Self::Backlog => shape.backlog = value,
            Self::Payload => shape.bytes = value.try_into()?,
            Self::Concurrency => shape.concurrency = value.try_into()?,
        }
        Ok(shape)
    }

    /// So many that all their payloads together take 200 MB at most.
    fn jobs(self, value: u32, quick: bool) -> u32 {
        let jobs = match self {
            Self::Payload => 20_000.min(200_000_000 / value),
            _ => 20_000,
        };
        if quick { jobs / 20 } else { jobs }
    }
}

pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Found>> {
    let mut all = Vec::new();
    for engine in [Engine::RabbitMq, Engine::Sqlite] {
        let mut store = Store::start(engine).await;
        for series in Series::ALL {
            let values = series.values(plan.quick);
            let labels = values.iter().map(|value| number(f64::from(*value), 0)).collect();
            let mut found = Found { series, engine, labels, lines: Vec::new() };
            for scenario in series.scenarios().iter().copied() {
                let mut line = Vec::new();
                for value in values.iter().copied() {
                    let (shape, jobs) = (series.shape(value)?, series.jobs(value, plan.quick));
                    let case = Case { shape, ..Case::usual(engine, scenario, Side::Jobq, jobs) };
                    let mut samples = Vec::new();
                    for _ in 0..plan.rounds {
                        let sample = store.run(case, Under::Nothing).await?;
                        eprintln!("{} {value}: {sample:?}", found.name());
                        samples.push(sample);
                    }
                    line.push(Figures::of(&samples));
                }
                found.lines.push((scenario, line));
            }
            all.push(found);
        }
    }
    Ok(all)
}

impl Figures {
    fn of(samples: &[Sample]) -> Self {
        let middle = |figure: &dyn Fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
        Self {
            time: middle(&|sample| 1e6 / sample.jobs_a_second()),
            cpu: middle(&Sample::micros_a_job),
            megabytes: middle(&Sample::megabytes),
        }
    }
}

impl Found {
    fn name(&self) -> String {
        format!("{}, {}", self.engine.name(), self.series.name())
    }

    pub(crate) fn file(&self) -> String {
        format!("{}-{}.svg", self.series.name(), self.engine.name())
    }

    pub(crate) fn plot(&self) -> anyhow::Result<String> {
        let lines = self.lines.iter().flat_map(|(scenario, figures)| {
            let line = |what, value: fn(&Figures) -> f64| Line {
                name: format!("{scenario}, {what}"),
                values: figures.iter().map(value).collect(),
            };
            [line("time", |figures| figures.time), line("CPU", |figures| figures.cpu)]
        });
        let lines: Vec<_> = lines.collect();
        plot::svg(&self.name(), self.series.axis(), &self.labels, &lines)
    }

    pub(crate) fn table(&self) -> String {
        let mut titles = vec![self.series.axis().to_owned()];
        for (scenario, _) in &self.lines {
            titles.push(format!("{scenario}: µs a job"));
            titles.extend(["CPU, µs a job".to_owned(), "memory, MB".to_owned()]);
        }
        let titles: Vec<_> = titles.iter().map(String::as_str).collect();
        let mut text = format!("**{}**\n\n{}\n", self.name(), head(&titles));
        for (at, label) in self.labels.iter().enumerate() {
            let mut cells = vec![label.clone()];
            for (_, figures) in &self.lines {
                let Figures { time, cpu, megabytes } = figures[at];
                cells.extend([time, cpu, megabytes].map(|figure| number(figure, 1)));
            }
            let _ = writeln!(text, "{}", row(&cells));
        }
        text
    }
}
