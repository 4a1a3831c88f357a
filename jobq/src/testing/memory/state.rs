//! The jobs of an engine in memory. Nothing here waits or wakes anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::control::Control;
use super::history::History;
use super::seats::SeatState;
use crate::clock::Clock;
use crate::engine::{
    self, Counts, Extent, Part, QueueSpec, Settle, Settlement, Verdict, Visiting, must_be_unused,
    nobody_subscribes,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::headers::By;
use crate::job::{Envelope, EventEnvelope, FailedJob, JobId, Priority, from_millis, topic};
use crate::period;

/// The clocks of real engines count whole milliseconds as well, rounded up.
const TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct State {
    pub(super) is_closed: bool,
    pub(super) clock: Clock,
    pub(super) history: History,
    pub(super) control: Control,
    pub(super) seats: BTreeMap<String, SeatState>,
    queues: BTreeMap<String, Queue>,
    /// The jobs that are ready, waiting or in flight, by their numbers.
    jobs: BTreeMap<u64, Job>,
    /// Events with a delay. A due time of `None` is never reached.
    events: Vec<(Option<SystemTime>, EventEnvelope)>,
    /// The number of the next job or consumer.
    next: u64,
}

#[derive(Debug, Default)]
struct Queue {
    failed: Vec<FailedJob>,
    patterns: BTreeSet<String>,
    /// Whether its jobs may have priorities.
    has_priorities: bool,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    /// `None` is never reached.
    pub(super) due: Option<SystemTime>,
    pub(super) envelope: Arc<Envelope>,
    /// That of the envelope.
    pub(super) priority: Priority,
    /// How often a worker died while it had the job.
    pub(super) crashes: u32,
    /// The consumer that holds it.
    owner: Option<u64>,
    /// How often it was started solo; `None` outside of solo runs.
    pub(super) starts: Option<u32>,
    /// The consumer that recorded its last solo start.
    pub(super) started_by: Option<u64>,
}

impl Job {
    fn is_due(&self, now: SystemTime) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    fn is_of(&self, queue: &str) -> bool {
        self.envelope.queue == queue
    }

    fn is_free(&self) -> bool {
        self.owner.is_none()
    }
}

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        let (history, control) = (History::default(), Control::default());
        let (queues, jobs, events) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let seats = BTreeMap::new();
        Self { is_closed: false, clock, history, control, seats, queues, jobs, events, next: 0 }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(crate::engine::closed()) } else { Ok(()) }
    }

    /// The end of a wait that begins now.
    fn after(&self, wait: Duration) -> Option<SystemTime> {
        let rounding =
            if wait.is_zero() || self.clock.is_stopped() { Duration::ZERO } else { TICK };
        let end = self.clock.now().checked_add(wait.checked_add(rounding)?)?;
        (wait <= period::MAX).then_some(end)
    }

    pub(super) fn declare(&mut self, spec: &QueueSpec) {
        let queue = self.queues.entry(spec.name.clone()).or_default();
        queue.patterns.extend(spec.patterns.iter().cloned());
        queue.has_priorities |= spec.priorities;
    }

    pub(super) fn has_priorities(&self, name: &str) -> bool {
        self.queues.get(name).is_some_and(|queue| queue.has_priorities)
    }

    pub(super) fn check_queue(&self, name: &str) -> Result<()> {
        if self.queues.contains_key(name) {
            return Ok(());
        }
        let text = format!("queue `{name}` does not exist; declare it first");
        Err(Error::new(ErrorKind::NotFound, text))
    }

    pub(super) fn push(&mut self, mut envelope: Envelope) -> Result<()> {
        self.check_queue(&envelope.queue)?;
        let due = self.after(std::mem::take(&mut envelope.delay));
        let number = self.number();
        let (priority, envelope) = (envelope.priority(), Arc::new(envelope));
        let (owner, starts, started_by) = (None, None, None);
        let job = Job { number, due, envelope, priority, crashes: 0, owner, starts, started_by };
        self.history.enqueued(job.number, Arc::clone(&job.envelope), job.due);
        self.jobs.insert(number, job);
        Ok(())
    }

    pub(super) fn publish(&mut self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        let (due, waits) = (self.after(event.delay), !event.delay.is_zero());
        if !waits && self.deliver(&event) == 0 && mandatory {
            return Err(nobody_subscribes(&event.topic));
        }
        self.history.published(&event, due);
        if waits {
            self.events.push((due, event));
        }
        Ok(())
    }

    /// Pushes a job for each subscriber, and returns their number.
    fn deliver(&mut self, event: &EventEnvelope) -> usize {
        let subscribes = |queue: &Queue| {
            queue.patterns.iter().any(|pattern| topic::matches(pattern, &event.topic))
        };
        let queues = self.queues.iter().filter(|(_, queue)| subscribes(queue));
        let names: Vec<_> = queues.map(|(name, _)| name.clone()).collect();
        for name in &names {
            let job = Envelope {
                id: event.id,
                headers: event.headers.clone(),
                content_encoding: event.content_encoding.clone(),
                topic: Some(event.topic.clone()),
                enqueued_at: event.published_at,
                expires_at: event.expires_at,
                enqueued_by: event.enqueued_by.clone(),
                ..Envelope::new(name.clone(), event.payload.clone())
            };
            self.push(job).expect("the queue is there");
        }
        names.len()
    }

    /// Delivers the events that are due.
    pub(super) fn deliver_events(&mut self) {
        let now = self.clock.now();
        let is_due = |(due, _): &mut (Option<SystemTime>, _)| due.is_some_and(|due| due <= now);
        let mut events: Vec<_> = self.events.extract_if(.., is_due).collect();
        events.sort_by_key(|(due, _)| *due);
        for (_, event) in events {
            self.deliver(&event);
        }
    }

    /// The due times of the free jobs that are wanted, and of the events. Jobs of paused queues are
    /// left out.
    pub(super) fn due_times(
        &self,
        wanted: impl Fn(&Envelope) -> bool,
    ) -> impl Iterator<Item = SystemTime> {
        let free = self.jobs.values().filter(move |job| {
            job.is_free() && wanted(&job.envelope) && !self.control.is_paused(&job.envelope.queue)
        });
        let events = self.events.iter().filter_map(|(due, _)| *due);
        free.filter_map(|job| job.due).chain(events)
    }

    /// Claims the due job that is wanted, of a queue that is not paused, by priority and due time.
    pub(super) fn claim(
        &mut self,
        consumer: u64,
        solo: bool,
        wanted: impl Fn(&Job) -> bool,
    ) -> Option<&mut Job> {
        let now = self.clock.now();
        let free = self.jobs.values().filter(|job| {
            job.is_free()
                && job.starts.is_some() == solo
                && job.is_due(now)
                && wanted(job)
                && !self.control.is_paused(&job.envelope.queue)
                && !(solo && self.has_solo_run(&job.envelope.queue))
        });
        let order = |job: &&Job| (job.priority.rank(), job.due, job.number);
        let number = free.min_by_key(order)?.number;
        let next = self.jobs.get_mut(&number)?;
        next.owner = Some(consumer);
        Some(next)
    }

    fn has_solo_run(&self, queue: &str) -> bool {
        self.jobs.values().any(|job| job.is_of(queue) && job.starts.is_some() && !job.is_free())
    }

    /// Claims the oldest job with this id, if it is due.
    pub(super) fn claim_id(&mut self, consumer: u64, id: JobId) -> Result<&Job, Unclaimed> {
        let now = self.clock.now();
        let job = self.oldest(id).ok_or(Unclaimed::Absent)?;
        if !job.is_due(now) {
            return Err(Unclaimed::DueAt(job.due));
        }
        job.owner = Some(consumer);
        Ok(job)
    }

    /// The oldest free job with this id.
    fn oldest(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.values_mut().find(|job| job.is_free() && job.envelope.id == id)
    }

    /// Records that a worker died after this attempt of the oldest job with this id, which was
    /// handed back.
    pub(super) fn crashed(&mut self, id: JobId, attempt: u32) {
        if let Some(job) = self.oldest(id) {
            job.crashes = job.crashes.saturating_add(1);
            let number = job.number;
            let how = format!("attempt {attempt} crashed before its acknowledgement");
            self.history.ran(number, how);
        }
    }

    /// Settles a job, unless its queue was deleted.
    pub(super) fn settle(&mut self, number: u64, settle: Settle) -> Result<()> {
        let Settle { attempt, settlement, .. } = settle;
        self.check_open()?;
        let now = self.clock.now();
        let end = match settlement {
            Settlement::Retry(wait) | Settlement::Snooze(wait) => self.after(wait),
            _ => None,
        };
        let Some(mut job) = self.jobs.remove(&number) else { return Ok(()) };
        self.history.settled(number, attempt, &settlement);
        let consumer = job.owner.take();
        let started = job.started_by.take().is_some();
        match settlement {
            Settlement::Complete => return Ok(()),
            Settlement::Retry(_) => {
                let attempts = &mut Arc::make_mut(&mut job.envelope).attempts;
                *attempts = attempts.saturating_add(1);
                (job.due, job.starts, job.crashes) = (end, None, 0);
            }
            Settlement::Snooze(_) => (job.due, job.starts, job.crashes) = (end, None, 0),
            Settlement::Release if started => {
                job.starts = job.starts.map(|starts| starts.saturating_sub(1));
            }
            Settlement::Release => {}
            Settlement::Isolate => job.starts = Some(0),
            Settlement::Start => {
                job.starts = job.starts.map(|starts| starts + 1);
                job.started_by = consumer;
            }
            Settlement::Fail { reason, error, attempts } => {
                let envelope = Arc::unwrap_or_clone(job.envelope);
                let queue = self.queues.entry(envelope.queue.to_string()).or_default();
                queue.failed.push(FailedJob::new(envelope, attempts, reason, error, now));
                return Ok(());
            }
        }
        self.jobs.insert(number, job);
        Ok(())
    }

    pub(super) fn counts(&self, queue: &str) -> Counts {
        Counts::from_parts(&self.parts(queue))
    }

    pub(super) fn parts(&self, name: &str) -> Vec<Part> {
        let now = self.clock.now();
        let (mut ready, mut solo, mut waiting) = ([0; 3], 0, 0);
        let Some(queue) = self.queues.get(name) else { return Vec::new() };
        for job in self.jobs.values().filter(|job| job.is_of(name) && job.is_free()) {
            match (job.is_due(now), job.starts) {
                (true, None) => ready[job.priority.rank()] += 1,
                (true, Some(_)) => solo += 1,
                (false, _) => waiting += 1,
            }
        }
        let of_lane = |priority: Priority| {
            let is_there = queue.has_priorities || priority == Priority::Normal;
            let jobs = ready[priority.rank()];
            is_there.then(|| Part::new(engine::Place::of_due(priority), jobs))
        };
        let others = [
            Part::new(engine::Place::Solo, solo),
            Part::new(engine::Place::Waiting, waiting),
            Part::new(engine::Place::Failed, queue.failed.len() as u64),
        ];
        Priority::ALL.into_iter().filter_map(of_lane).chain(others).collect()
    }

    pub(super) fn failed(&self, queue: &str) -> &[FailedJob] {
        self.queues.get(queue).map_or(&[], |queue| &queue.failed)
    }

    /// Asks about the failed jobs of a queue, oldest first, and settles them.
    pub(super) fn visit(&mut self, queue: &str, visiting: &mut Visiting) {
        let Some(found) = self.queues.get_mut(queue) else {
            visiting.missing();
            return;
        };
        visiting.visited.extent = Some(Extent::new(found.failed.len() as u64));
        let mut jobs = std::mem::take(&mut found.failed).into_iter();
        let mut stay = Vec::new();
        for job in jobs.by_ref() {
            let id = job.id();
            match visiting.ask(job.clone()) {
                Verdict::Keep => stay.push(job),
                Verdict::Enough => {
                    stay.push(job);
                    break;
                }
                Verdict::Retry => {
                    self.retry(job, None);
                    visiting.visited.settled.push(id);
                }
                Verdict::RetryBy { operation, once } => {
                    self.retry(job, Some(By { operation: &operation, once }));
                    visiting.visited.settled.push(id);
                }
                Verdict::Discard => visiting.visited.settled.push(id),
            }
        }
        visiting.visited.complete = jobs.len() == 0;
        stay.extend(jobs);
        self.queues.entry(queue.to_owned()).or_default().failed = stay;
    }

    /// Retries a failed job, with the content that `docs/wire.md` lists.
    fn retry(&mut self, job: FailedJob, by: Option<By<'_>>) {
        let mut envelope = job.into_envelope();
        envelope.attempts = 0;
        // An event states that it has no expiry; otherwise its subscriber's would apply.
        let never = from_millis(u64::MAX);
        envelope.expires_at = envelope.topic.is_some().then_some(never);
        envelope.headers = envelope.headers.of_retry(by);
        self.push(envelope).expect("the queue is there");
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        self.queues.keys().cloned().collect()
    }

    pub(super) fn unsubscribe(&mut self, queue: &str, pattern: &str) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.patterns.remove(pattern);
        }
    }

    pub(super) fn delete(&mut self, name: &str, force: bool) -> Result<u64> {
        if !force {
            let held = self.jobs.values().filter(|job| job.is_of(name) && !job.is_free());
            let held = held.count() as u64;
            let users = [(held, "in flight"), (self.control.takers_of(name), "consumers")];
            must_be_unused(name, self.counts(name), &users)?;
        }
        self.control.set_pause(name, None);
        self.seats.remove(name);
        let queue = self.queues.remove(name).unwrap_or_default();
        let before = self.jobs.len();
        self.jobs.retain(|_, job| !job.is_of(name));
        Ok((before - self.jobs.len() + queue.failed.len()) as u64)
    }
}

/// The reason for which a job could not be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unclaimed {
    Absent,
    DueAt(Option<SystemTime>),
}
