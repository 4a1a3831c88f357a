use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::{join, stream};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use tokio::time::{Instant, timeout, timeout_at};

use super::state::{State, state};
use crate::engine::{
    Administer, Answers, Ask, Counts, Durations, Figure, Part, Passage, Pause, Percentiles, Place,
    PoolQueue, PoolReport, Question, QueueNames, Reply, fractional_millis,
};
use crate::error::{Error, ErrorKind, Result};

/// How many queues are looked at together.
const AT_ONCE: usize = 8;

/// How long an engine may take to answer, beside the time that pools have. An engine that does not
/// answer leaves the figures unknown, and whoever looks is told so.
const ANSWER: Duration = Duration::from_secs(2);
/// How much longer for each queue, on average.
const A_QUEUE: Duration = Duration::from_millis(20);

/// The figures of queues, from [`Admin::overview`](super::Admin::overview).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// The queues, sorted by name.
    pub queues: Vec<QueueOverview>,
    /// Where the names are from: `named` by the caller, `file`, `client`, `pools`, `management`.
    pub sources: Vec<&'static str>,
    /// Whether there are certainly no other queues.
    pub complete: bool,
    /// Why there may be others; `None` if it is complete.
    pub incomplete: Option<String>,
    /// Jobs and events in the delay levels of RabbitMQ, of all queues, since AMQP does not tell whose
    /// they are. They are in no queue's [`waiting`](QueueOverview::waiting). Probes are left out that
    /// a pool that answered knows of. 0 on engines without levels.
    pub in_levels: Figure<u64>,
    /// Whether jobs come out of the delay levels when they are due, as pools report it. Known as
    /// `None` if there are none.
    pub levels: Figure<Option<Passage>>,
    /// The reports of the pools that answered, from which some of the figures are. Not in JSON.
    #[serde(skip)]
    pub reports: Figure<Vec<PoolReport>>,
}

/// The figures of one queue.
///
/// In JSON a figure that is unknown is `null`, and `unknown` has its reason under its name. The
/// durations of attempts are `p50_ms` and `p95_ms`, in milliseconds with fractions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueOverview {
    /// The name of the queue, without a namespace.
    pub queue: String,
    /// Jobs that are due and not in flight.
    pub ready: Figure<u64>,
    /// Jobs that are not due yet; see [`Counts::waiting`](super::Counts::waiting).
    pub waiting: Figure<u64>,
    /// Jobs that pools have taken and not settled, as they report it.
    pub in_flight: Figure<u64>,
    /// Those of them that pools have taken ahead: they wait for a free slot of their pool.
    pub ahead: Figure<u64>,
    /// Failed jobs.
    pub failed: Figure<u64>,
    /// Pools that work on the queue and answered. Unknown if none did and there are consumers that may
    /// belong to others.
    pub pools: Figure<u32>,
    /// Consumers of the queue that belong to no pool that answered.
    pub unaccounted: Figure<u32>,
    /// What the pools that answered did in the last minute: completed jobs.
    pub completed: Figure<u64>,
    /// The longest wait from due to start in the last minute, as pools report it. Known as `None`
    /// if nothing started.
    pub waited: Figure<Option<Duration>>,
    /// How long the attempts took that ended in the last minute, over all pools that answered.
    /// Known as `None` if none ended.
    pub durations: Figure<Option<Percentiles>>,
    /// Whether jobs come out of the tiers of the queue when they are due, as pools report it. Known as
    /// `None` without a tier of up to a minute: longer ones are not probed.
    pub waits: Figure<Option<Passage>>,
    /// The pause of the queue; known as `None` if it is not paused.
    pub paused: Figure<Option<Pause>>,
    /// The state of the queue.
    pub state: State,
    /// Where its jobs are, but for those in the [delay levels](Overview::in_levels). `ready`, `waiting`
    /// and `failed` are the sums; `waiting` leaves out the probes that pools report, which tiers have.
    ///
    /// On RabbitMQ these are ready jobs, solo jobs, each tier with its wait, those on their way out
    /// of the delay levels, and failed jobs. Each number is asked for by AMQP. Which tiers there
    /// are and whether there is a place for solo jobs is asked of the management API; without its
    /// URL these are the places that this client or its pools declared, and if it has declared
    /// nothing of the queue, all that waits is one part with an unknown number, and solo jobs are
    /// left out.
    ///
    /// On SQLite and in memory: ready, solo, waiting and failed jobs. There are no tiers.
    ///
    /// A queue that does not exist has none.
    ///
    /// ```
    /// use jobq::admin::Queues;
    ///
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// for queue in client.admin().overview(Queues::one("mail")).await?.queues {
    ///     for part in &queue.parts {
    ///         println!("{}: {}", part.place, part.jobs); // such as `tier 30s: 112`
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub parts: Vec<Part>,
}

impl QueueOverview {
    /// The figures that are unknown, with the reasons.
    #[must_use]
    pub fn unknown(&self) -> BTreeMap<&'static str, &str> {
        let figures = [
            ("ready", self.ready.why()),
            ("waiting", self.waiting.why()),
            ("in_flight", self.in_flight.why()),
            ("ahead", self.ahead.why()),
            ("failed", self.failed.why()),
            ("pools", self.pools.why()),
            ("unaccounted", self.unaccounted.why()),
            ("completed", self.completed.why()),
            ("waited_ms", self.waited.why()),
            ("p50_ms", self.durations.why()),
            ("p95_ms", self.durations.why()),
            ("waits", self.waits.why()),
            ("paused", self.paused.why()),
        ];
        figures.into_iter().filter_map(|(name, why)| Some((name, why?))).collect()
    }
}

impl Serialize for QueueOverview {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = |waited: &Option<Duration>| {
            waited.map(|waited| u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))
        };
        let durations = self.durations.known().copied().flatten();
        let mut queue = serializer.serialize_struct("QueueOverview", 17)?;
        queue.serialize_field("queue", &self.queue)?;
        queue.serialize_field("state", &self.state)?;
        queue.serialize_field("ready", &self.ready)?;
        queue.serialize_field("waiting", &self.waiting)?;
        queue.serialize_field("in_flight", &self.in_flight)?;
        queue.serialize_field("ahead", &self.ahead)?;
        queue.serialize_field("failed", &self.failed)?;
        queue.serialize_field("pools", &self.pools)?;
        queue.serialize_field("unaccounted", &self.unaccounted)?;
        queue.serialize_field("completed", &self.completed)?;
        queue.serialize_field("waited_ms", &self.waited.known().and_then(millis))?;
        queue.serialize_field("p50_ms", &durations.map(|took| fractional_millis(took.p50)))?;
        queue.serialize_field("p95_ms", &durations.map(|took| fractional_millis(took.p95)))?;
        queue.serialize_field("waits", &self.waits)?;
        queue.serialize_field("paused", &self.paused)?;
        queue.serialize_field("parts", &self.parts)?;
        queue.serialize_field("unknown", &self.unknown())?;
        queue.end()
    }
}

/// Reads the figures of these queues.
pub(super) async fn overview(
    engine: &dyn Administer,
    names: QueueNames,
    patience: Duration,
) -> Result<Overview> {
    let QueueNames { mut names, mut sources, complete, incomplete } = names;
    let mut asked = match ask(engine, &names, patience).await {
        // Neither the engine nor a pool has named a queue.
        Err(error) if names.is_empty() && !complete => return Err(error),
        answers => Asked::from(answers),
    };
    if sources != ["named"] {
        let theirs: BTreeSet<_> = asked.queues().map(|queue| queue.queue.clone()).collect();
        let new: Vec<_> = theirs.difference(&names).cloned().collect();
        if !new.is_empty() {
            // Asked again, since the consumers of these queues are to be accounted for as well.
            names.extend(new);
            asked = Asked::from(ask(engine, &names, patience).await);
        }
        if asked.reports.is_some() {
            sources.push("pools");
        }
    }
    let asked = &asked;
    let end = deadline(names.len());
    let queues = stream::iter(names).map(|name| async move {
        let looking = async { join!(engine.parts(&name), engine.paused(&name)) };
        let (parts, paused) = match timeout_at(end, looking).await {
            Ok((parts, paused)) => (
                parts.unwrap_or_else(|error| Counts::unknown(why(&error)).into_parts()),
                paused.unwrap_or_else(|error| Figure::unknown(why(&error))),
            ),
            Err(_) => (Counts::unknown(late(engine)).into_parts(), Figure::unknown(late(engine))),
        };
        asked.overview(name, parts, paused)
    });
    let in_levels = async {
        match timeout_at(end, engine.in_levels()).await {
            Ok(read) => read.unwrap_or_else(|error| Figure::unknown(why(&error))),
            Err(_) => Figure::unknown(late(engine)),
        }
    };
    let (queues, in_levels) = join!(queues.buffered(AT_ONCE).collect::<Vec<_>>(), in_levels);
    let in_levels = without(in_levels, asked.reports.iter().flatten().map(|it| it.level_probes));
    let theirs = asked.reports.iter().flatten().map(|report| report.levels);
    // Without jobs there may be no levels.
    let levels = asked.passage(theirs, in_levels != 0);
    let reports = match &asked.reports {
        Some(reports) => Figure::Known(reports.clone()),
        None => Figure::unknown(asked.problem.clone()),
    };
    Ok(Overview { queues, sources, complete, incomplete, in_levels, levels, reports })
}

/// Asks pools for their reports, for a bounded time.
async fn ask(
    engine: &dyn Administer,
    names: &BTreeSet<String>,
    patience: Duration,
) -> Result<Answers> {
    let ask = Ask::all(Question::Report, names.iter().cloned().collect(), patience);
    let answers = timeout(patience + ANSWER, engine.ask(ask)).await;
    answers.unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, late(engine))))
}

/// Until when the figures of so many queues are waited for.
fn deadline(queues: usize) -> Instant {
    let queues = u32::try_from(queues).unwrap_or(u32::MAX);
    Instant::now() + ANSWER.saturating_add(A_QUEUE.saturating_mul(queues))
}

fn late(engine: &dyn Administer) -> String {
    format!("no answer in time: {}", engine.trouble())
}

/// The reason of a figure that an error leaves unknown. Where the cause is an error of jobq, the
/// error repeats it after the name of the figure, which would differ from queue to queue.
fn why(error: &Error) -> String {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Error>());
    cause.unwrap_or(error).to_string()
}

/// What pools answered.
struct Asked {
    /// `None` if pools cannot be asked.
    reports: Option<Vec<PoolReport>>,
    unaccounted: BTreeMap<String, Figure<u32>>,
    problem: String,
}

impl From<Result<Answers>> for Asked {
    fn from(answers: Result<Answers>) -> Self {
        match answers {
            Ok(answers) => {
                let report = |(_, reply)| match reply {
                    Reply::Report(report) => Some(report),
                    _ => None,
                };
                Self {
                    reports: Some(answers.replies.into_iter().filter_map(report).collect()),
                    unaccounted: answers.unaccounted,
                    problem: String::new(),
                }
            }
            Err(error) => {
                Self { reports: None, unaccounted: BTreeMap::new(), problem: why(&error) }
            }
        }
    }
}

/// The number of jobs where the broker counts those that these pools know to be probes as well.
/// Each pool knows of the probes of all.
fn without(jobs: Figure<u64>, probes: impl Iterator<Item = u32>) -> Figure<u64> {
    let probes = probes.max().unwrap_or(0);
    jobs.map(|jobs| jobs.saturating_sub(probes.into()))
}

impl Asked {
    fn queues(&self) -> impl Iterator<Item = &PoolQueue> {
        self.reports.iter().flatten().flat_map(|report| &report.queues)
    }

    /// Whether jobs come out of a place that may be there: the worst that pools say of it.
    fn passage(
        &self,
        theirs: impl Iterator<Item = Option<Passage>>,
        is_there: bool,
    ) -> Figure<Option<Passage>> {
        match theirs.flatten().max() {
            Some(Passage::Unknown) => Figure::unknown("no probe has come through yet"),
            None if is_there && self.reports.is_none() => Figure::unknown(self.problem.clone()),
            None if is_there => Figure::unknown("no pool reports it"),
            worst => Figure::Known(worst),
        }
    }

    /// The figures of a queue.
    fn overview(
        &self,
        queue: String,
        parts: Vec<Part>,
        paused: Figure<Option<Pause>>,
    ) -> QueueOverview {
        let counts = Counts::from_parts(&parts);
        let theirs: Vec<_> = self.queues().filter(|report| report.queue == queue).collect();
        let unaccounted = match self.unaccounted.get(&queue) {
            Some(unaccounted) => unaccounted.clone(),
            None if self.reports.is_some() => Figure::unknown("its consumers were not counted"),
            None => Figure::unknown(self.problem.clone()),
        };
        let sum = |figure: fn(&PoolQueue) -> u64| {
            theirs.iter().fold(0, |sum: u64, queue| sum.saturating_add(figure(queue)))
        };
        let figure = |sum: u64| match &unaccounted {
            Figure::Known(0) => Figure::Known(sum),
            Figure::Known(missing) => {
                Figure::unknown(format!("{missing} consumers belong to no pool that answered"))
            }
            Figure::Unknown(why) => Figure::Unknown(why.clone()),
        };
        // Without an answer nothing is known of consumers that may belong to other pools.
        let heard = match &self.reports {
            None => Figure::unknown(self.problem.clone()),
            Some(_) if theirs.is_empty() => figure(0).map(|_| ()),
            Some(_) => Figure::Known(()),
        };
        let pools = u32::try_from(theirs.len()).unwrap_or(u32::MAX);
        let waited = theirs.iter().filter_map(|queue| queue.minute.waited).max();
        let ready = (!parts.is_empty()).then_some(&counts.ready);
        let state = state(&paused, &unaccounted, ready, &theirs);
        QueueOverview {
            ready: counts.ready,
            waiting: without(counts.waiting, theirs.iter().map(|queue| queue.probes)),
            failed: counts.failed,
            in_flight: figure(sum(|queue| queue.in_flight.into())),
            ahead: if theirs.iter().any(|queue| queue.ahead.is_none()) {
                Figure::unknown("a pool of an earlier version does not report jobs taken ahead")
            } else {
                figure(sum(|queue| queue.ahead.unwrap_or_default().into()))
            },
            completed: figure(sum(|queue| queue.minute.completed)),
            pools: heard.clone().map(|()| pools),
            waited: heard.clone().map(|()| waited),
            durations: match heard {
                Figure::Known(()) => durations(&theirs),
                Figure::Unknown(why) => Figure::Unknown(why),
            },
            waits: self.passage(theirs.iter().map(|pool| pool.waits), parts.iter().any(is_probed)),
            unaccounted,
            paused,
            state,
            parts,
            queue,
        }
    }
}

/// Whether pools probe a place, or may do so where the tiers are unknown.
fn is_probed(part: &Part) -> bool {
    match part.place {
        Place::Tier(wait) => wait.as_millis() <= Passage::LONGEST_MS.into(),
        Place::Waiting => part.jobs.known().is_none(),
        _ => false,
    }
}

/// How long the attempts of the last minute took in all these pools.
fn durations(pools: &[&PoolQueue]) -> Figure<Option<Percentiles>> {
    let mut all = Durations::default();
    for PoolQueue { minute, .. } in pools {
        // Each job that completed has run.
        if minute.completed > minute.durations.count() {
            return Figure::unknown("a pool of an earlier version does not report durations");
        }
        all.merge(&minute.durations);
    }
    Figure::Known(all.percentiles())
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
