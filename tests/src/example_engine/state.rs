//! The jobs. Nothing here waits, sleeps or wakes anybody.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime};

use jobq::engine::{Counts, Extent, Part, Place, QueueSpec, Settlement, Verdict, Visit, Visited};
use jobq::{Envelope, Error, ErrorKind, EventEnvelope, FailedJob, Headers, Result};

use super::{after, topic};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) is_closed: bool,
    queues: BTreeMap<String, Queue>,
    /// Events that wait.
    events: Vec<(Option<Instant>, EventEnvelope)>,
    /// The queues that are consumed, by the numbers of their consumers.
    pub(super) consumers: BTreeMap<u64, &'static str>,
    /// The number of the next job, failed job or consumer.
    next: u64,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Job>,
    failed: Vec<Failed>,
    patterns: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    /// `None`: never.
    due: Option<Instant>,
    pub(super) due_at: SystemTime,
    pub(super) envelope: Envelope,
    /// The consumer that has it.
    owner: Option<u64>,
    /// Set where it is to be run alone: how often it was started so.
    pub(super) starts: Option<u32>,
    /// The consumer whose start was recorded.
    pub(super) started_by: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Failed {
    pub(super) job: FailedJob,
    /// What it is when it is put back.
    envelope: Envelope,
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn declare(&mut self, spec: &QueueSpec) {
        let queue = self.queues.entry(spec.name.clone()).or_default();
        queue.patterns.extend(spec.patterns.iter().cloned());
    }

    pub(super) fn check_queue(&self, name: &str) -> Result<()> {
        if self.queues.contains_key(name) {
            return Ok(());
        }
        let text = format!("there is no queue `{name}`; declare it first");
        Err(Error::new(ErrorKind::NotFound, text))
    }

    pub(super) fn push(&mut self, mut envelope: Envelope, now: Instant) -> Result<()> {
        self.check_queue(&envelope.queue)?;
        let (due, number) = (after(now, envelope.delay), self.number());
        let due_at = SystemTime::now().checked_add(envelope.delay).unwrap_or(SystemTime::now());
        envelope.delay = Duration::ZERO;
        let (owner, starts, started_by) = (None, None, None);
        let queue = self.queues.entry(envelope.queue.to_string()).or_default();
        queue.jobs.push(Job { number, due, due_at, envelope, owner, starts, started_by });
        Ok(())
    }

    pub(super) fn publish(
        &mut self,
        event: EventEnvelope,
        mandatory: bool,
        now: Instant,
    ) -> Result<()> {
        if !event.delay.is_zero() {
            self.events.push((after(now, event.delay), event));
            return Ok(());
        }
        if self.hand_out(&event, now) == 0 && mandatory {
            let text = format!("nobody subscribes to `{}`", event.topic);
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        Ok(())
    }

    /// Makes a job for each subscriber, and says for how many.
    fn hand_out(&mut self, event: &EventEnvelope, now: Instant) -> usize {
        let subscribes = |queue: &Queue| {
            queue.patterns.iter().any(|pattern| topic::matches(pattern, &event.topic))
        };
        let queues = self.queues.iter().filter(|(_, queue)| subscribes(queue));
        let names: Vec<_> = queues.map(|(name, _)| name.clone()).collect();
        for name in &names {
            let mut job = Envelope::new(name.clone(), event.payload.clone());
            job.id = event.id;
            job.headers = event.headers.clone();
            job.content_encoding.clone_from(&event.content_encoding);
            job.topic = Some(event.topic.clone());
            (job.enqueued_at, job.expires_at) = (event.published_at, event.expires_at);
            job.enqueued_by.clone_from(&event.enqueued_by);
            self.push(job, now).expect("the queue is there");
        }
        names.len()
    }

    /// Hands out the events that are due.
    pub(super) fn release_events(&mut self, now: Instant) {
        let is_due = |(due, _): &mut (Option<Instant>, _)| due.is_some_and(|due| due <= now);
        let mut events: Vec<_> = self.events.extract_if(.., is_due).collect();
        events.sort_by_key(|(due, _)| *due);
        for (_, event) in events {
            self.hand_out(&event, now);
        }
    }

    /// When something is due next: the first of what is not due yet.
    pub(super) fn next_due(&self, queue: &str, now: Instant) -> Option<Instant> {
        let jobs = self.queues.get(queue).into_iter().flat_map(|queue| &queue.jobs);
        let jobs = jobs.filter_map(|job| job.due);
        let events = self.events.iter().filter_map(|(due, _)| *due);
        jobs.chain(events).filter(|due| *due > now).min()
    }

    /// Has a consumer take the next job that is due.
    pub(super) fn claim(
        &mut self,
        queue: &str,
        consumer: u64,
        solo: bool,
        now: Instant,
    ) -> Option<&mut Job> {
        let jobs = &mut self.queues.get_mut(queue)?.jobs;
        if solo && jobs.iter().any(|job| job.starts.is_some() && job.owner.is_some()) {
            return None;
        }
        let is_next = |job: &&mut Job| {
            let is_due = job.due.is_some_and(|due| due <= now);
            is_due && job.owner.is_none() && job.starts.is_some() == solo
        };
        let next = jobs.iter_mut().filter(is_next).min_by_key(|job| (job.due, job.number))?;
        next.owner = Some(consumer);
        Some(next)
    }

    /// Settles a job, unless its queue was deleted.
    pub(super) fn settle(
        &mut self,
        (queue, number): (&str, u64),
        settlement: Settlement,
        now: Instant,
    ) -> Result<()> {
        let Some(queue) = self.queues.get_mut(queue) else { return Ok(()) };
        let Some(place) = queue.jobs.iter().position(|job| job.number == number) else {
            return Ok(());
        };
        let job = &mut queue.jobs[place];
        let consumer = job.owner.take();
        let started = job.started_by.take().is_some();
        let wait = |job: &mut Job, wait| {
            (job.due, job.starts) = (after(now, wait), None);
            job.due_at = SystemTime::now().checked_add(wait).unwrap_or(job.due_at);
        };
        match settlement {
            Settlement::Complete => drop(queue.jobs.remove(place)),
            Settlement::Retry(period) => {
                job.envelope.attempts = job.envelope.attempts.saturating_add(1);
                wait(job, period);
            }
            Settlement::Snooze(period) => wait(job, period),
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
                let envelope = queue.jobs.remove(place).envelope;
                let at = SystemTime::now();
                let job = FailedJob::new(envelope.clone(), attempts, reason, error, at);
                queue.failed.push(Failed { job, envelope });
            }
            other => {
                let text = format!("this engine does not know {other:?}");
                return Err(Error::new(ErrorKind::Unsupported, text));
            }
        }
        Ok(())
    }

    pub(super) fn counts(&self, queue: &str, now: Instant) -> Counts {
        Counts::of(&self.parts(queue, now))
    }

    pub(super) fn parts(&self, queue: &str, now: Instant) -> Vec<Part> {
        let Some(queue) = self.queues.get(queue) else { return Vec::new() };
        let free = queue.jobs.iter().filter(|job| job.owner.is_none());
        let (due, waiting): (Vec<_>, Vec<_>) =
            free.partition(|job| job.due.is_some_and(|due| due <= now));
        let solo = due.iter().filter(|job| job.starts.is_some()).count();
        vec![
            Part::new(Place::Ready, (due.len() - solo) as u64),
            Part::new(Place::Solo, solo as u64),
            Part::new(Place::Waiting, waiting.len() as u64),
            Part::new(Place::Failed, queue.failed.len() as u64),
        ]
    }

    /// Asks about each failed job, the oldest first, and does what it is told.
    pub(super) fn visit(&mut self, name: &str, mut visit: Visit, now: Instant) -> Visited {
        let mut visited = Visited::new();
        let Some(queue) = self.queues.get_mut(name) else {
            visited.complete = true;
            return visited;
        };
        visited.extent = Some(Extent::new(queue.failed.len() as u64));
        let mut jobs = std::mem::take(&mut queue.failed).into_iter();
        let mut stay = Vec::new();
        for failed in jobs.by_ref() {
            let (id, job) = (failed.job.id(), failed.job.clone());
            visited.seen += 1;
            let Ok(verdict) = catch_unwind(AssertUnwindSafe(|| visit(job))) else {
                let text = "the function that looks at failed jobs panicked";
                visited.end = Some(Error::new(ErrorKind::Invalid, text));
                stay.push(failed);
                break;
            };
            match verdict {
                Verdict::PutBack => self.put_back(name, failed, None, now),
                Verdict::PutBackBy { operation, once } => {
                    self.put_back(name, failed, Some((&operation, once)), now);
                }
                Verdict::Discard => {}
                Verdict::Enough => {
                    stay.push(failed);
                    break;
                }
                _ => {
                    stay.push(failed);
                    continue;
                }
            }
            visited.settled.push(id);
        }
        visited.complete = jobs.len() == 0 && visited.end.is_none();
        stay.extend(jobs);
        self.queues.entry(name.to_owned()).or_default().failed = stay;
        visited
    }

    fn put_back(&mut self, queue: &str, failed: Failed, by: Option<(&str, bool)>, now: Instant) {
        let mut envelope = failed.envelope;
        envelope.attempts = 0;
        // An event has no expiry by saying so: else it has that of its subscriber.
        let never = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        envelope.expires_at = envelope.topic.is_some().then_some(never);
        envelope.headers = of_put_back(&envelope.headers, by);
        envelope.queue = Cow::Owned(queue.to_owned());
        self.push(envelope, now).expect("the queue is there");
    }

    pub(super) fn unsubscribe(&mut self, queue: &str, pattern: &str) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.patterns.remove(pattern);
        }
    }

    pub(super) fn delete(&mut self, name: &str, force: bool) -> Result<u64> {
        let counts = self.counts(name, Instant::now());
        let in_hand = |queue: &Queue| queue.jobs.iter().any(|job| job.owner.is_some());
        let is_used = !counts.is_empty()
            || self.queues.get(name).is_some_and(in_hand)
            || self.consumers.values().any(|queue| *queue == name);
        if is_used && !force {
            let text = format!("queue `{name}` is not deleted: it has jobs or consumers");
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let queue = self.queues.remove(name).unwrap_or_default();
        Ok((queue.jobs.len() + queue.failed.len()) as u64)
    }
}

/// The headers of a job that is put back, by its id or by an operation, which may give it one attempt
/// alone: docs/wire.md says what goes.
fn of_put_back(headers: &Headers, by: Option<(&str, bool)>) -> Headers {
    let once = by.filter(|(_, once)| *once).map(|(operation, _)| operation);
    let mut operations: Vec<_> =
        headers.get("jobq-operations").unwrap_or_default().split_whitespace().collect();
    operations.extend(by.map(|(operation, _)| operation));
    let operations = operations[operations.len().saturating_sub(8)..].join(" ");
    let needs = headers.get("jobq-needs").unwrap_or_default().split_whitespace();
    let needs = needs.filter(|word| *word != "once").chain(once.map(|_| "once"));
    let needs = needs.collect::<Vec<_>>().join(" ");
    let own = [
        ("jobq-needs", Some(&*needs).filter(|needs| !needs.is_empty())),
        ("jobq-once", once),
        ("jobq-operations", by.map(|_| &*operations)),
    ];
    let is_own = |name: &str| own.iter().any(|(own, _)| *own == name);
    let kept = headers.iter().filter(|(name, _)| !is_own(name));
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    kept.chain(own).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
