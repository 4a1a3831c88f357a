//! The jobs, states and layers of a pool, and their checks.

#[cfg(feature = "schedules")]
mod periodic;

use std::any::{TypeId, type_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "schedules")]
pub(super) use self::periodic::{Periodics, Specs};
use super::attempt::{Attempt, Resources};
use super::extract::Requires;
use super::function::JobFunction;
use super::layer::Layers;
use super::run::{Call, Run};
use super::state::States;
use crate::client::Client;
use crate::engine::QueueSpec;
use crate::error::{Error, Result};
use crate::guard::Guarded;
use crate::job::{Envelope, Job, JobOptions, check_name, check_pattern, codec, queue_of};
use crate::retry;

/// Decodes the payload of an attempt and makes the call of the job's function, inside the layers.
type Start = Box<dyn Fn(&Attempt, &Arc<Layers>) -> serde_json::Result<Call> + Send + Sync>;

/// A job with its function.
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    payload: TypeId,
    pub(crate) queue: &'static str,
    pub(crate) options: JobOptions,
    /// Whether its function is a plain `fn`.
    pub(crate) blocks: bool,
    pub(crate) start: Guarded<Start>,
    requires: Requires,
    /// Finds the payload with which it is enqueued without arguments.
    #[cfg(feature = "schedules")]
    empty_payload: fn() -> Option<&'static str>,
}

impl Registered {
    fn new<J: Job>(start: Start, blocks: bool, requires: Requires) -> Self {
        Self {
            name: J::NAME,
            payload: TypeId::of::<J>(),
            queue: queue_of::<J>(),
            options: J::OPTIONS,
            blocks,
            start: Guarded::new(start),
            requires,
            #[cfg(feature = "schedules")]
            empty_payload: periodic::payload_of::<J>,
        }
    }

    /// A job made by `#[job]` on a function.
    pub(crate) fn of_type<J: Run>() -> Self {
        let mut requires = Requires::default();
        J::requires(&mut requires);
        let start = |attempt: &Attempt, layers: &Arc<Layers>| {
            let job: J = codec::decode(&attempt.envelope().payload)?;
            Ok(layers.around(attempt, |attempt| job.call(attempt)))
        };
        Self::new::<J>(Box::new(start), J::BLOCKS, requires)
    }

    /// A job with a function of its own.
    pub(crate) fn of_function<F: JobFunction<A>, A>(function: F) -> Self {
        let mut requires = Requires::default();
        F::requires(&mut requires);
        let function = Arc::new(function);
        let start = move |attempt: &Attempt, layers: &Arc<Layers>| {
            let job = codec::decode(&attempt.envelope().payload)?;
            let function = Arc::clone(&function);
            Ok(layers.around(attempt, move |attempt| F::call(&function, job, attempt)))
        };
        Self::new::<F::Job>(Box::new(start), F::BLOCKS, requires)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The configuration of a pool, before it is checked.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) jobs: Vec<Registered>,
    states: States,
    pub(crate) layers: Layers,
    /// The types of states that were given twice.
    repeated_states: Vec<&'static str>,
    /// Whether jobs of a lower priority never start before others.
    pub(crate) is_strict: bool,
    #[cfg(feature = "schedules")]
    pub(super) periodics: Periodics,
}

/// The checked configuration of a pool.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: BTreeMap<&'static str, Arc<Registered>>,
    pub(crate) queues: Queues,
    pub(crate) layers: Arc<Layers>,
    /// Whether jobs of a lower priority never start before others.
    pub(crate) is_strict: bool,
}

impl Plan {
    /// The names of the jobs of a queue.
    pub(crate) fn jobs_of(&self, queue: &str) -> impl Iterator<Item = &'static str> {
        self.jobs.values().filter(move |job| job.queue == queue).map(|job| job.name)
    }
}

/// The queues that a pool consumes, by name.
pub(crate) type Queues = BTreeMap<&'static str, QueuePlan>;

/// One queue that a pool consumes.
#[derive(Debug, Default)]
pub(crate) struct QueuePlan {
    /// How many attempts run at once, at first.
    pub(crate) concurrency: u16,
    /// The job of a message without a name: the only one of the queue.
    pub(crate) only_job: Option<&'static str>,
    /// Whether it has schedules.
    seat: bool,
    /// Whether its jobs may have priorities.
    pub(crate) priorities: bool,
    pub(crate) slots: watch::Sender<Slots>,
    waits: BTreeSet<Duration>,
    /// The topic patterns that its job subscribes to.
    patterns: BTreeSet<&'static str>,
}

/// The slots of a queue in a pool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slots {
    /// How many attempts run at once.
    pub(crate) count: u16,
    /// How many are held by functions past their timeout.
    pub(crate) lost: usize,
}

impl Slots {
    fn are_lost(&self) -> bool {
        self.lost >= usize::from(self.count)
    }
}

impl QueuePlan {
    /// The slots now.
    pub(crate) fn slots(&self) -> Slots {
        *self.slots.borrow()
    }

    /// Returns when functions past their timeout hold all slots.
    pub(crate) async fn slots_lost(&self) {
        // Cannot fail: the plan owns the sender.
        let _ = self.slots.subscribe().wait_for(Slots::are_lost).await;
    }

    /// Returns when one of them has ended.
    pub(crate) async fn slots_regained(&self) {
        let _ = self.slots.subscribe().wait_for(|slots| !slots.are_lost()).await;
    }

    /// The name of the job that a message is for; empty if it states none and the queue serves
    /// several jobs.
    pub(crate) fn job_of<'e>(&self, envelope: &'e Envelope) -> &'e str {
        // The publisher of an event does not know its subscribers.
        let is_unnamed = envelope.topic.is_some() && self.only_job.is_some();
        let name = envelope.name.as_deref().filter(|_| !is_unnamed);
        name.or(self.only_job).unwrap_or_default()
    }
}

impl Registry {
    pub(crate) fn state<T: Send + Sync + 'static>(&mut self, value: T) {
        if !self.states.insert(value) {
            self.repeated_states.push(type_name::<T>());
        }
    }

    /// Checks everything that can be checked before the first job runs, and returns the plan of
    /// each queue. `needs_jobs` unless the pool has something else to do.
    pub(crate) fn check(&self, concurrency: u16, needs_jobs: bool) -> Result<Queues> {
        if needs_jobs && self.jobs.is_empty() {
            return Err(Error::invalid(
                "the pool has no jobs; add them with `.register::<SendWelcome>()` or \
                 `.handle(function)`",
            ));
        }
        if concurrency == 0 {
            return Err(Error::invalid(
                "the pool's concurrency is 0, so it would never run a job; set it to at least 1",
            ));
        }
        if let Some(state) = self.repeated_states.first() {
            return Err(Error::invalid(format!(
                "the pool has two states of type `{state}`; wrap one of them in a type of its own"
            )));
        }
        let mut names = HashMap::new();
        for job in &self.jobs {
            check_job(job, &self.states)?;
            let name = job.name;
            match names.insert(name, job.payload) {
                None => {}
                Some(payload) if payload == job.payload => {
                    return Err(Error::invalid(format!(
                        "job `{name}` is registered twice in the pool; remove one of the calls"
                    )));
                }
                Some(_) => {
                    return Err(Error::invalid(format!(
                        "two jobs of the pool have the name `{name}`; rename one of them with \
                         `name = \"...\"`"
                    )));
                }
            }
        }
        self.queues(concurrency)
    }

    /// The schedules of each queue, if the pool enqueues their jobs.
    #[cfg(feature = "schedules")]
    pub(super) fn schedules(&self) -> Result<Specs> {
        self.periodics.specs(&self.jobs)
    }

    /// The plan for these queues, which [`check`](Self::check) returned, and the resources for
    /// arguments of functions.
    pub(crate) fn into_plan(self, queues: Queues, client: Client) -> (Plan, Resources) {
        let jobs = self.jobs.into_iter().map(|job| (job.name, Arc::new(job))).collect();
        let (layers, is_strict) = (Arc::new(self.layers), self.is_strict);
        let plan = Plan { jobs, queues, layers, is_strict };
        let shutdown = CancellationToken::new();
        (plan, Resources { client, states: self.states, shutdown })
    }

    fn queues(&self, default: u16) -> Result<Queues> {
        let mut queues = BTreeMap::<_, QueuePlan>::new();
        let mut stated = HashMap::new();
        for job in &self.jobs {
            let queue = queues.entry(job.queue).or_default();
            queue.waits.extend(retry::waits(&job.options));
            queue.waits.insert(retry::UNKNOWN_JOB_WAIT);
            queue.patterns.extend(job.options.on);
            queue.priorities |= job.options.has_priorities();
            let first = queue.concurrency == 0;
            queue.only_job = first.then_some(job.name);
            queue.concurrency = queue.concurrency.max(1);
            let Some(concurrency) = job.options.concurrency else { continue };
            let (other, before) = stated.entry(job.queue).or_insert((job.name, concurrency));
            if *before != concurrency {
                return Err(Error::invalid(format!(
                    "queue `{}` has conflicting values of `concurrency`: {before} from job \
                     `{other}` and {concurrency} from job `{}`; give both jobs the same value, or \
                     separate queues",
                    job.queue, job.name
                )));
            }
        }
        for (name, queue) in &mut queues {
            if !queue.patterns.is_empty() && queue.only_job.is_none() {
                return Err(shared_by_a_subscriber(name, &self.jobs));
            }
            queue.concurrency = stated.get(name).map_or(default, |(_, concurrency)| *concurrency);
            queue.slots = watch::channel(Slots { count: queue.concurrency, lost: 0 }).0;
        }
        #[cfg(feature = "schedules")]
        for queue in self.schedules()?.into_keys() {
            queues.entry(queue).or_default().seat = true;
        }
        Ok(queues)
    }
}

/// The jobs that may run for longer than the limit, by their timeouts.
pub(crate) fn may_outlast(
    timeouts: impl IntoIterator<Item = (&'static str, Option<Duration>)>,
    limit: Duration,
) -> Vec<&'static str> {
    let may = |(_, timeout): &(_, Option<Duration>)| timeout.is_none_or(|timeout| timeout > limit);
    timeouts.into_iter().filter(may).map(|(name, _)| name).collect()
}

/// The queues that the engine must declare.
pub(crate) fn specs(queues: &Queues) -> Vec<QueueSpec> {
    let spec = |(name, queue): (&&str, &QueuePlan)| {
        let waits = queue.waits.iter().copied();
        let spec = QueueSpec::new(*name).waits(waits).patterns(queue.patterns.iter().copied());
        let spec = spec.solo();
        let spec = if queue.priorities { spec.priorities() } else { spec };
        if queue.seat { spec.seat() } else { spec }
    };
    queues.iter().map(spec).collect()
}

/// The error of a subscriber that shares its queue: an event names no job, so its queue must have
/// only one.
fn shared_by_a_subscriber(queue: &str, jobs: &[Registered]) -> Error {
    let there = |job: &&Registered| job.queue == queue;
    let (subscribers, others): (Vec<_>, Vec<_>) =
        jobs.iter().filter(there).partition(|job| !job.options.on.is_empty());
    let subscriber = subscribers.first().map_or("", |job| job.name);
    let other = others.first().or(subscribers.get(1)).map_or("", |job| job.name);
    Error::invalid(format!(
        "job `{subscriber}` subscribes to events, but shares queue `{queue}` with job `{other}`; \
         give the subscriber a queue of its own"
    ))
}

/// Checks one job.
fn check_job(job: &Registered, states: &States) -> Result<()> {
    check_name("job", job.name)?;
    check_name("queue", job.queue)?;
    job.options.on.iter().try_for_each(|pattern| check_pattern(pattern))?;
    if job.options.has_priorities() && !job.options.on.is_empty() {
        return Err(Error::invalid(format!(
            "job `{}` subscribes to events, which have no priority; remove its priority",
            job.name
        )));
    }
    if job.options.concurrency == Some(0) {
        return Err(Error::invalid(format!(
            "job `{}` has concurrency 0, so it would never run; set it to at least 1",
            job.name
        )));
    }
    let limits = [("timeout", job.options.timeout), ("expires", job.options.expires)];
    if let Some((what, _)) = limits.iter().find(|(_, limit)| *limit == Some(Duration::ZERO)) {
        return Err(Error::invalid(format!(
            "job `{}` has a `{what}` of zero, so every attempt would fail; leave it out for no \
             limit",
            job.name
        )));
    }
    let Some(missing) = job.requires.states().iter().find(|state| !states.contains(state.id))
    else {
        return Ok(());
    };
    let (job, state) = (job.name, missing.name);
    let remedy = if states.contains(missing.arc) {
        format!(
            "the pool has an `Arc<{state}>`: give it the value without the `Arc`, which `State` \
             needs no more, or let the job take a `State<Arc<..>>`"
        )
    } else {
        "add one to the pool with `.state(value)`".to_owned()
    };
    Err(Error::invalid(format!("job `{job}` needs a state of type `{state}`; {remedy}")))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
