use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::state::{State, state};
use crate::engine::{
    Administer, Ask, Counts, Durations, Part, Pause, Percentiles, PoolQueue, PoolReport, Question,
    QueueNames, Read, Reply, fractional_millis,
};
use crate::error::Result;

/// How many queues are looked at together.
const AT_ONCE: usize = 8;

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
    /// The reports of the pools that answered, from which some of the figures are. Not in JSON.
    #[serde(skip)]
    pub reports: Read<Vec<PoolReport>>,
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
    pub ready: Read<u64>,
    /// Jobs that are not due yet; see [`Counts::waiting`](super::Counts::waiting).
    pub waiting: Read<u64>,
    /// Jobs that pools have taken and not settled, as they report it.
    pub in_flight: Read<u64>,
    /// Those of them that pools have taken ahead: they wait for a free slot of their pool.
    pub ahead: Read<u64>,
    /// Failed jobs.
    pub failed: Read<u64>,
    /// Pools that work on the queue and answered. Unknown if none did and there are consumers that may
    /// belong to others.
    pub pools: Read<u32>,
    /// Consumers of the queue that belong to no pool that answered.
    pub unaccounted: Read<u32>,
    /// What the pools that answered did in the last minute: completed jobs.
    pub completed: Read<u64>,
    /// The longest wait from due to start in the last minute, as pools report it. Known as `None`
    /// if nothing started.
    pub waited: Read<Option<Duration>>,
    /// How long the attempts took that ended in the last minute, over all pools that answered.
    /// Known as `None` if none ended.
    pub durations: Read<Option<Percentiles>>,
    /// The pause of the queue; known as `None` if it is not paused.
    pub paused: Read<Option<Pause>>,
    /// The state of the queue.
    pub state: State,
    /// Where its jobs are. `ready`, `waiting` and `failed` are the sums.
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
        let mut queue = serializer.serialize_struct("QueueOverview", 16)?;
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
    let QueueNames { mut names, mut sources, complete } = names;
    let ask = Ask::all(Question::Report, names.iter().cloned().collect(), patience);
    let mut asked = Asked::from(engine.ask(ask).await);
    if sources != ["named"] {
        let theirs: BTreeSet<_> = asked.queues().map(|queue| queue.queue.clone()).collect();
        let new: Vec<_> = theirs.difference(&names).cloned().collect();
        if !new.is_empty() {
            // Asked again, since the consumers of these queues are to be accounted for as well.
            names.extend(new);
            let ask = Ask::all(Question::Report, names.iter().cloned().collect(), patience);
            asked = Asked::from(engine.ask(ask).await);
        }
        if asked.reports.is_some() {
            sources.push("pools");
        }
    }
    let asked = &asked;
    let queues = stream::iter(names).map(|name| async move {
        let parts = engine.parts(&name).await.unwrap_or_else(|error| unread(&error.to_string()));
        let paused = engine.paused(&name).await;
        let paused = paused.unwrap_or_else(|error| Read::unknown(error.to_string()));
        asked.overview(name, parts, paused)
    });
    let queues = queues.buffered(AT_ONCE).collect().await;
    let reports = match &asked.reports {
        Some(reports) => Read::Known(reports.clone()),
        None => Read::unknown(asked.problem.clone()),
    };
    Ok(Overview { queues, sources, complete, reports })
}

/// The parts of a queue that could not be looked at.
fn unread(why: &str) -> Vec<Part> {
    let mut parts = Counts::new(0, 0, 0).into_parts();
    for part in &mut parts {
        part.jobs = Read::unknown(why.to_owned());
    }
    parts
}

/// What pools answered.
struct Asked {
    /// `None` if pools cannot be asked.
    reports: Option<Vec<PoolReport>>,
    unaccounted: BTreeMap<String, Read<u32>>,
    problem: String,
}

impl From<Result<crate::engine::Answers>> for Asked {
    fn from(answers: Result<crate::engine::Answers>) -> Self {
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
            Err(error) => Self {
                reports: None,
                unaccounted: BTreeMap::new(),
                problem: format!("pools could not be asked: {error}"),
            },
        }
    }
}

impl Asked {
    fn queues(&self) -> impl Iterator<Item = &PoolQueue> {
        self.reports.iter().flatten().flat_map(|report| &report.queues)
    }

    /// The figures of a queue.
    fn overview(
        &self,
        queue: String,
        parts: Vec<Part>,
        paused: Read<Option<Pause>>,
    ) -> QueueOverview {
        let counts = Counts::of(&parts);
        let theirs: Vec<_> = self.queues().filter(|report| report.queue == queue).collect();
        let unaccounted = match self.unaccounted.get(&queue) {
            Some(unaccounted) => unaccounted.clone(),
            None if self.reports.is_some() => Read::unknown("its consumers were not counted"),
            None => Read::unknown(self.problem.clone()),
        };
        let sum = |figure: fn(&PoolQueue) -> u64| {
            theirs.iter().fold(0, |sum: u64, queue| sum.saturating_add(figure(queue)))
        };
        let figure = |sum: u64| match &unaccounted {
            Read::Known(0) => Read::Known(sum),
            Read::Known(missing) => {
                Read::unknown(format!("{missing} consumers belong to no pool that answered"))
            }
            Read::Unknown(why) => Read::Unknown(why.clone()),
        };
        // Without an answer nothing is known of consumers that may belong to other pools.
        let heard = match &self.reports {
            None => Read::unknown(self.problem.clone()),
            Some(_) if theirs.is_empty() => figure(0).map(|_| ()),
            Some(_) => Read::Known(()),
        };
        let pools = u32::try_from(theirs.len()).unwrap_or(u32::MAX);
        let waited = theirs.iter().filter_map(|queue| queue.minute.waited).max();
        let ready = (!parts.is_empty()).then_some(&counts.ready);
        let state = state(&paused, &unaccounted, ready, &theirs);
        QueueOverview {
            ready: counts.ready,
            waiting: counts.waiting,
            failed: counts.failed,
            in_flight: figure(sum(|queue| queue.in_flight.into())),
            ahead: if theirs.iter().any(|queue| queue.ahead.is_none()) {
                Read::unknown("a pool of an earlier version does not report jobs taken ahead")
            } else {
                figure(sum(|queue| queue.ahead.unwrap_or_default().into()))
            },
            completed: figure(sum(|queue| queue.minute.completed)),
            pools: heard.clone().map(|()| pools),
            waited: heard.clone().map(|()| waited),
            durations: match heard {
                Read::Known(()) => durations(&theirs),
                Read::Unknown(why) => Read::Unknown(why),
            },
            unaccounted,
            paused,
            state,
            parts,
            queue,
        }
    }
}

/// How long the attempts of the last minute took in all these pools.
fn durations(pools: &[&PoolQueue]) -> Read<Option<Percentiles>> {
    let mut all = Durations::default();
    for PoolQueue { minute, .. } in pools {
        // Each job that completed has run.
        if minute.completed > minute.durations.count() {
            return Read::unknown("a pool of an earlier version does not report durations");
        }
        all.merge(&minute.durations);
    }
    Read::Known(all.percentiles())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_figure_is_null_and_has_its_reason_beside_it() {
        let asked = Asked {
            reports: Some(Vec::new()),
            unaccounted: BTreeMap::from([("mail".to_owned(), Read::Known(2))]),
            problem: String::new(),
        };
        let view =
            asked.overview("mail".into(), Counts::new(5, 0, 0).into_parts(), Read::Known(None));
        let json = serde_json::to_value(view).unwrap();
        assert_eq!((&json["ready"], &json["in_flight"]), (&5.into(), &serde_json::Value::Null));
        for figure in ["in_flight", "ahead", "completed", "pools", "waited_ms", "p50_ms"] {
            assert_eq!(json[figure], serde_json::Value::Null, "{figure}");
            let why = &json["unknown"][figure];
            assert_eq!(why, "2 consumers belong to no pool that answered", "{figure}");
        }
        assert_eq!(json["state"], "unknown");
    }

    #[test]
    fn durations_are_those_of_all_pools() {
        let pool = |completed, millis: &[u64]| {
            let mut pool = PoolQueue::new("mail", 1);
            pool.minute.completed = completed;
            let took = millis.iter().copied().map(Duration::from_millis);
            took.for_each(|took| pool.minute.durations.record(took));
            pool
        };
        let earlier = "a pool of an earlier version does not report durations";
        for (pools, p50, p95, why) in [
            (vec![], None, None, None),
            (vec![pool(0, &[])], None, None, None),
            (vec![pool(2, &[1, 1]), pool(0, &[])], Some(0.992), Some(0.992), None),
            (vec![pool(2, &[1, 1]), pool(1, &[8, 8, 8])], Some(7.936), Some(7.936), None),
            (vec![pool(2, &[1, 1]), pool(1, &[8])], Some(0.992), Some(7.936), None),
            (vec![pool(2, &[1, 1]), pool(1, &[])], None, None, Some(earlier)),
        ] {
            let report = |queue| {
                let started = std::time::SystemTime::UNIX_EPOCH;
                PoolReport::new(crate::engine::PoolId::new(), String::new(), started, vec![queue])
            };
            let asked = Asked {
                reports: Some(pools.into_iter().map(report).collect()),
                unaccounted: BTreeMap::from([("mail".to_owned(), Read::Known(0))]),
                problem: String::new(),
            };
            let view = asked.overview("mail".into(), Vec::new(), Read::Known(None));
            let json = serde_json::to_value(view).unwrap();
            let found = (json["p50_ms"].as_f64(), json["p95_ms"].as_f64());
            assert_eq!(found, (p50, p95), "{json:#}");
            for name in ["p50_ms", "p95_ms"] {
                assert_eq!(json["unknown"][name].as_str(), why, "{json:#}");
            }
        }
        let asked =
            Asked { reports: None, unaccounted: BTreeMap::new(), problem: "no answer".into() };
        let view = asked.overview("mail".into(), Vec::new(), Read::Known(None));
        assert_eq!(view.durations.why(), Some("no answer"));
    }
}
