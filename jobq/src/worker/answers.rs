//! The answers of a pool to questions and orders.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::QueueState;
use super::health::{Status, state_of};
use super::queue::Queue;
use super::shared::Shared;
use crate::engine::{
    Activity, Cancel, Controlled, PoolId, PoolQueue, PoolRelay, PoolReport, Question,
    RelayActivity, Reply, RunningJob,
};
use crate::guard::lock;
use crate::relay::{self, RelayHealth, RelayState};
#[cfg(feature = "schedules")]
use crate::worker::board::Board;
use crate::{host, telemetry};

/// The most attempts of each kind in a report.
const MAX_REPORTED: usize = 1_000;
/// How often a pool logs that its clock differs.
const CLOCK_LOGGED: Duration = Duration::from_secs(3_600);

/// How far a pool can be controlled from outside, for
/// [`WorkerPool::control`](crate::WorkerPool::control).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolControl {
    /// The pool reports what it does, and takes orders: to stop, to take no more jobs, to cancel a
    /// running job.
    #[default]
    Full,
    /// It reports what it does, and takes no orders but pauses of its queues.
    Look,
    /// It does not answer. On RabbitMQ it does not learn that a queue is paused, and goes on taking
    /// its jobs.
    Off,
}

/// One queue of a running pool.
#[derive(Debug, Clone)]
pub(super) struct PoolPart {
    pub(super) queue: Arc<Queue>,
    /// The state of the task that runs its jobs.
    pub(super) together: Status,
    /// The state of the task for solo runs.
    pub(super) alone: Status,
}

impl PoolPart {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, together: Status::default(), alone: Status::default() }
    }

    pub(super) fn state(&self) -> QueueState {
        state_of(&self.together, &self.alone)
    }

    /// Returns when the state may have changed since the call.
    #[cfg(feature = "schedules")]
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let (together, alone) = (self.together.changed(), self.alone.changed());
        async move {
            tokio::select! {
                () = together => {}
                () = alone => {}
            }
        }
    }

    /// What the pool reports about the queue.
    fn report(&self) -> PoolQueue {
        let slots = self.queue.plan().slots();
        let mut report = PoolQueue::new(self.queue.name, u32::from(slots.count));
        (report.state, report.since, report.problem) = activity(self.state());
        report.lost_slots = u32::try_from(slots.lost).unwrap_or(u32::MAX);
        report.running = longest(self.queue.running());
        report.lost = longest(self.queue.observer.lost_slots());
        let (ahead, in_flight) = self.queue.taken();
        report.ahead = Some(u32::try_from(ahead).unwrap_or(u32::MAX));
        report.in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        report.minute = self.queue.last_minute();
        report.unmet_needs = self.queue.observer.last_unmet_needs();
        report.consumers = self.together.consumers();
        report.consumers.extend(self.alone.consumers());
        report
    }
}

/// A running pool as an engine reaches it.
#[derive(Debug)]
pub(super) struct ControlledPool {
    pub(super) id: PoolId,
    pub(super) level: PoolControl,
    pub(super) started_at: SystemTime,
    pub(super) shared: Arc<Shared>,
    pub(super) parts: Vec<PoolPart>,
    pub(super) relays: Vec<Arc<relay::Board>>,
    /// When it last logged that its clock differs.
    pub(super) clock_logged: Mutex<Option<Instant>>,
    #[cfg(feature = "schedules")]
    pub(super) board: Arc<Board>,
}

impl ControlledPool {
    /// Logs that its clock differs from that of another machine, once an hour.
    fn clock_differs(&self, ahead_ms: i64, of: &str) {
        let mut logged = lock(&self.clock_logged);
        if logged.is_none_or(|logged| logged.elapsed() >= CLOCK_LOGGED) {
            *logged = Some(Instant::now());
            telemetry::clock_differs(self.id, ahead_ms, of);
        }
    }

    /// Changes the slots of a queue.
    fn set_slots(&self, queue: &str, slots: u16) -> Reply {
        let Some(part) = self.parts.iter().find(|part| part.queue.name == queue) else {
            return Reply::Refused { why: format!("it does not work on queue `{queue}`") };
        };
        if self.shared.enough.is_cancelled() {
            return Reply::Refused { why: "it takes no more jobs".to_owned() };
        }
        let lost = part.queue.plan().slots().lost;
        if usize::from(slots) <= lost {
            let why = match lost {
                0 => "a queue needs at least 1 slot".to_owned(),
                _ => format!("functions past their timeout hold {lost} slots; set more than that"),
            };
            return Reply::Refused { why };
        }
        telemetry::slots_set(self.id, queue, slots, part.queue.set_slots(slots));
        Reply::Accepted
    }

    fn order(&self, question: &Question) -> Reply {
        if self.level != PoolControl::Full {
            let why = "it was started with a `control` setting that accepts no orders".to_owned();
            return Reply::Refused { why };
        }
        match question {
            Question::Quiet => {
                telemetry::told(self.id, "quiet");
                self.shared.enough.cancel();
                Reply::Accepted
            }
            Question::Stop => {
                telemetry::told(self.id, "stop");
                self.shared.stop.cancel();
                Reply::Accepted
            }
            Question::Slots { queue, slots } => self.set_slots(queue, *slots),
            Question::Cancel { id } => {
                let cancels = self.parts.iter().map(|part| part.queue.cancel(*id));
                let cancel = cancels.fold(Cancel::NotRunning, |before, cancel| match cancel {
                    Cancel::NotRunning => before,
                    asked => asked,
                });
                Reply::Cancelled(cancel)
            }
            _ => Reply::Refused { why: "it does not know this order".to_owned() },
        }
    }
}

impl Controlled for ControlledPool {
    fn id(&self) -> PoolId {
        self.id
    }

    fn queues(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.queue.name.to_owned()).collect()
    }

    fn answer(&self, question: &Question) -> Reply {
        match question {
            Question::Report => {
                let queues = self.parts.iter().map(PoolPart::report).collect();
                let host = host::name().to_owned();
                let mut report = PoolReport::new(self.id, host, self.started_at, queues);
                report.memory_bytes = host::memory();
                report.relays = self.relays.iter().map(|board| relay_of(board.health())).collect();
                report.reported_at = Some(self.shared.clock().now());
                Reply::Report(report)
            }
            Question::Watch { jobs } => {
                let outcomes = self.parts.iter().map(|part| part.queue.observer.outcomes(jobs));
                Reply::Outcomes { jobs: outcomes.flatten().collect() }
            }
            Question::Clock { ahead_ms, of } => {
                self.clock_differs(*ahead_ms, of);
                Reply::Accepted
            }
            #[cfg(feature = "schedules")]
            Question::Schedules { begun } => {
                let own = self.parts.iter().map(|part| part.queue.name);
                own.filter(|own| begun.as_deref() == Some(own))
                    .for_each(|own| self.board.tell(own));
                let report = |report| serde_json::to_value(report).unwrap_or_default();
                let reports = self.board.reports().into_iter();
                Reply::Schedules {
                    queues: reports.map(|(queue, held)| (queue, report(held))).collect(),
                }
            }
            order => self.order(order),
        }
    }
}

/// The jobs that run longest, those first.
fn longest(mut jobs: Vec<RunningJob>) -> Vec<RunningJob> {
    jobs.sort_by_key(|job| std::cmp::Reverse(job.running));
    jobs.truncate(MAX_REPORTED);
    jobs
}

/// A relay in the report of the pool.
fn relay_of(health: RelayHealth) -> PoolRelay {
    let mut report = PoolRelay::new(health.source);
    (report.state, report.since, report.problem) = match health.state {
        RelayState::Starting => (RelayActivity::Starting, None, None),
        RelayState::Sending => (RelayActivity::Sending, None, None),
        RelayState::Standby => (RelayActivity::Standby, None, None),
        RelayState::Interrupted { since, error } => {
            (RelayActivity::Interrupted, Some(since), Some(error.to_string()))
        }
        RelayState::Ended => (RelayActivity::Ended, None, None),
    };
    if let Some(backlog) = health.backlog {
        (report.waiting, report.refused) = (Some(backlog.waiting), Some(backlog.refused));
        report.oldest = backlog.oldest;
    }
    report
}

/// The state of a queue for a report, with its start and its problem.
fn activity(state: QueueState) -> (Activity, Option<SystemTime>, Option<String>) {
    match state {
        QueueState::Consuming => (Activity::Consuming, None, None),
        QueueState::Interrupted { since, error } => {
            (Activity::Interrupted, Some(since), Some(error.to_string()))
        }
        QueueState::Resting => (Activity::Resting, None, None),
        QueueState::Paused { since, .. } => (Activity::Paused, since, None),
        QueueState::Quiet => (Activity::Quiet, None, None),
        QueueState::Ended(error) => (Activity::Ended, None, error.map(|error| error.to_string())),
    }
}
