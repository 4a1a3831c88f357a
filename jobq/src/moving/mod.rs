//! Moves jobs from one engine to another: from a file to a broker, from broker to broker, or to a file.
//!
//! ```no_run
//! # #[tokio::main]
//! # async fn main() -> jobq::Result<()> {
//! use std::future::pending;
//!
//! use jobq::Client;
//! use jobq::moving::Move;
//!
//! let source = Client::connect("sqlite://jobs.db").await?;
//! let target = Client::connect("amqp://localhost").await?;
//! let moved = Move::new(&source, &target).run_until(pending(), |_| {}).await?;
//! println!("{} jobs and {} failed jobs", moved.jobs, moved.failed);
//! # Ok(())
//! # }
//! ```
//!
//! A job keeps its id, payload, headers, priority, used attempts and expiry, what is left of its wait, and
//! its error if it has failed. Pools may run on both sides.
//!
//! Nothing is lost, whatever is killed. Jobs are removed from the source, some hundred at a time, once the
//! target has stored them. If the move is killed in between, these are in both, under the same ids.

#[cfg(feature = "schedules")]
mod schedules;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::background;
use crate::client::Client;
use crate::engine::{
    Admission, Admit, Counts, Depart, Departing, Disposition, Engine, Figure, Next, QueueSpec,
    Scope, administration,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::JobId;

/// How often a source without jobs to take is looked at.
const IDLE: Duration = Duration::from_millis(200);
/// How often new queues of the source are looked for.
const LOOKS: Duration = Duration::from_secs(5);
/// The most errors that are kept.
const MAX_REFUSALS: usize = 100;

/// A move of jobs.
#[derive(Debug, Clone)]
#[must_use = "nothing is moved until `.run_until(..)`"]
pub struct Move {
    source: Arc<dyn Engine>,
    target: Arc<dyn Engine>,
    queues: Vec<String>,
    follows: bool,
}

/// What was moved.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Moved {
    /// Jobs that were due or waiting.
    pub jobs: u64,
    /// Jobs that were suspected of crashing workers.
    pub suspected: u64,
    /// Failed jobs.
    pub failed: u64,
    /// Events that were waiting.
    pub events: u64,
    /// Queues that are paused.
    pub paused: u64,
    /// Schedules that clients have made.
    pub schedules: u64,
    /// Queues whose schedules stay, since a pool holds them.
    pub held_schedules: Vec<String>,
    /// How many the target refuses, such as for a payload over its limit or a full queue: they stay in the
    /// source.
    pub refused: u64,
    /// The first hundred of those, with the errors.
    pub refusals: Vec<(JobId, Error)>,
    /// The error that ended the move early. A further one goes on where this one has ended.
    pub end: Option<Error>,
}

impl Move {
    /// A move of all that is in the source, in the namespace of its client, to the namespace of the
    /// target's client.
    pub fn new(source: &Client, target: &Client) -> Self {
        let (source, target) = (Arc::clone(source.engine()), Arc::clone(target.engine()));
        Self { source, target, queues: Vec::new(), follows: false }
    }

    /// Moves this queue, and others that are named, alone. What waits in a place that all queues share
    /// stays: events, and on RabbitMQ the jobs in the delay levels, until they are due.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push(name.into());
        self
    }

    /// Goes on when the source is empty, until it is ended.
    pub fn follow(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns how many jobs there are to move, by queue. Nothing is changed.
    ///
    /// # Errors
    ///
    /// As [`run_until`](Self::run_until).
    pub async fn plan(&self) -> Result<BTreeMap<String, Counts>> {
        background::call(async {
            let administer = administration(&*self.source)?;
            let mut plan = BTreeMap::new();
            for QueueSpec { name, .. } in self.specs(self.departures()?).await? {
                let counts = administer.counts(&name).await?;
                plan.insert(name, counts);
            }
            Ok(plan)
        })
        .await
    }

    /// Moves jobs until the source is empty, or until the future is ready: then what was taken last is
    /// moved to its end. Jobs that run in the source are waited for.
    ///
    /// The queues are declared in the target with their subscriptions, and those that are paused are
    /// paused there first.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for a source that cannot hand over its jobs, or that cannot
    /// list its queues (RabbitMQ without [`management`](crate::ClientBuilder::management)), and for a
    /// target that cannot take them; [`NotFound`](ErrorKind::NotFound) for a queue that the source does
    /// not have; an engine that cannot be reached or refuses, before anything was moved. Later errors are
    /// in [`Moved::end`].
    pub async fn run_until(
        &self,
        end: impl Future<Output = ()> + Send,
        mut progress: impl FnMut(&Moved) + Send,
    ) -> Result<Moved> {
        background::call(async {
            let mut end = pin!(end);
            let mut run = Run::begin(self).await?;
            loop {
                let wait = match run.round(&mut progress).await {
                    Ok(Round::Moved) => Duration::ZERO,
                    Ok(Round::InUse) => IDLE,
                    Ok(Round::Empty) if self.follows => IDLE,
                    Ok(Round::Empty) => return Ok(run.moved),
                    Err(error) => {
                        run.moved.end = Some(error);
                        return Ok(run.moved);
                    }
                };
                tokio::select! {
                    biased;
                    () = &mut end => return Ok(run.moved),
                    () = sleep(wait) => {}
                }
            }
        })
        .await
    }

    fn departures(&self) -> Result<&dyn Depart> {
        self.source.depart().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "the source cannot hand over its jobs: move from RabbitMQ or from a job file",
            )
        })
    }

    fn arrivals(&self) -> Result<&dyn Admit> {
        self.target.admit().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "the target cannot take jobs of another engine: move to RabbitMQ or to a job file",
            )
        })
    }

    /// The queues to move.
    async fn specs(&self, departures: &dyn Depart) -> Result<Vec<QueueSpec>> {
        if !administration(&*self.source)?.queues().await?.complete {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the source does not list its queues: for RabbitMQ, set the URL of its management API \
                 (`--management`, or `ClientBuilder::management`), and check its user",
            ));
        }
        let mut specs = departures.queues_to_declare().await?;
        if let Some(missing) =
            self.queues.iter().find(|name| specs.iter().all(|spec| spec.name != **name))
        {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("the source has no queue `{missing}`; `jobq queues` lists them"),
            ));
        }
        specs.retain(|spec| self.queues.is_empty() || self.queues.contains(&spec.name));
        Ok(specs)
    }
}

/// What a round has done.
enum Round {
    Moved,
    /// What is left is in use.
    InUse,
    Empty,
}

/// A move that runs.
struct Run<'m> {
    plan: &'m Move,
    departures: &'m dyn Depart,
    arrivals: &'m dyn Admit,
    departing: BTreeMap<Option<String>, Box<dyn Departing>>,
    /// When new queues were last looked for.
    looked: Instant,
    moved: Moved,
}

impl<'m> Run<'m> {
    async fn begin(plan: &'m Move) -> Result<Self> {
        if Arc::ptr_eq(&plan.source, &plan.target) {
            return Err(Error::invalid("the source is the target; name two different ones"));
        }
        let (departures, arrivals) = (plan.departures()?, plan.arrivals()?);
        let (departing, moved) = (BTreeMap::new(), Moved::default());
        let looked = Instant::now();
        let mut run = Self { plan, departures, arrivals, departing, looked, moved };
        run.find_queues().await?;
        if plan.queues.is_empty() {
            run.departing.insert(None, departures.depart(Scope::Shared).await?);
        }
        Ok(run)
    }

    /// Declares the queues that are new in the target, and begins to take their jobs.
    async fn find_queues(&mut self) -> Result<()> {
        self.looked = Instant::now();
        let mut specs = self.plan.specs(self.departures).await?;
        specs.retain(|spec| !self.departing.contains_key(&Some(spec.name.clone())));
        if specs.is_empty() {
            return Ok(());
        }
        self.plan.target.declare(&specs).await?;
        for QueueSpec { name, .. } in specs {
            self.copy_pause(&name).await?;
            #[cfg(feature = "schedules")]
            schedules::take_along(self.plan, &name, &mut self.moved).await?;
            let departing = self.departures.depart(Scope::Queue(name.clone())).await?;
            self.departing.insert(Some(name), departing);
        }
        Ok(())
    }

    async fn copy_pause(&mut self, queue: &str) -> Result<()> {
        let paused = administration(&*self.plan.source)?.paused(queue).await?;
        if let Figure::Known(Some(pause)) = paused {
            administration(&*self.plan.target)?.pause(queue, &pause).await?;
            self.moved.paused += 1;
        }
        Ok(())
    }

    /// Moves some jobs of each queue, and some events.
    async fn round(&mut self, progress: &mut impl FnMut(&Moved)) -> Result<Round> {
        let mut round = Round::Empty;
        let Self { departing, moved, arrivals, .. } = self;
        for departing in departing.values_mut() {
            match departing.next().await? {
                Next::Taken(batch) => {
                    round = Round::Moved;
                    hand_over(&mut **departing, *arrivals, batch, moved).await?;
                    progress(moved);
                }
                Next::Later if matches!(round, Round::Empty) => round = Round::InUse,
                Next::Later | Next::Empty => {}
            }
        }
        if !matches!(round, Round::Moved) && self.looked.elapsed() >= LOOKS {
            self.find_queues().await?;
        }
        Ok(round)
    }
}

/// Stores a batch in the target, and removes what arrived from the source.
async fn hand_over(
    departing: &mut dyn Departing,
    arrivals: &dyn Admit,
    batch: Vec<Admission>,
    moved: &mut Moved,
) -> Result<()> {
    let kinds: Vec<_> = batch.iter().map(Kind::of).collect();
    let mut dispositions = vec![Disposition::Removed; kinds.len()];
    let mut end = None;
    for (place, error) in arrivals.admit(batch).await {
        if matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Closed) {
            dispositions[place] = Disposition::Returned;
            end.get_or_insert(error);
        } else {
            dispositions[place] = Disposition::Kept;
            moved.refused += 1;
            if moved.refusals.len() < MAX_REFUSALS {
                moved.refusals.push((kinds[place].1, error));
            }
        }
    }
    departing.settle(dispositions.clone()).await?;
    for ((kind, _), _) in kinds
        .iter()
        .zip(&dispositions)
        .filter(|(_, disposition)| **disposition == Disposition::Removed)
    {
        *match kind {
            Kind::Job => &mut moved.jobs,
            Kind::Suspected => &mut moved.suspected,
            Kind::Failed => &mut moved.failed,
            Kind::Event => &mut moved.events,
        } += 1;
    }
    end.map_or(Ok(()), Err)
}

/// What is counted apart.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Job,
    Suspected,
    Failed,
    Event,
}

impl Kind {
    fn of(admission: &Admission) -> (Self, JobId) {
        match admission {
            Admission::Job(job) => (Self::Job, job.id),
            Admission::Solo(job, _) => (Self::Suspected, job.id),
            Admission::Failed(job) => (Self::Failed, job.id()),
            Admission::Event(event) => (Self::Event, event.id),
        }
    }
}
