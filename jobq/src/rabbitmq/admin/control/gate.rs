//! The gate of a queue: whether its consumers may take jobs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::Control;
use super::pause_state::PauseState;
use super::queue::ControlQueue;
use crate::background;
use crate::engine::Pause;
use crate::error::Result;
use crate::guard::lock;
use crate::rabbitmq::consume::valve::Valve;

/// How long an answer is waited for on an open control queue: less than the timeout of the client,
/// after which nobody would know that the queue is to be replaced. A node that has just started is
/// slow.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the consumers of a queue wait for an answer, through several questions. Then they take
/// jobs, whether it is paused or not.
const UNANSWERED: Duration = Duration::from_secs(30);
/// The waits between the questions after an event: on a cluster, two nodes may see a binding at
/// different moments.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// How often it is asked while the queue is paused, and otherwise: an order may have been lost with
/// a control queue.
const WHILE_PAUSED: Duration = Duration::from_secs(5);
const WHILE_OPEN: Duration = Duration::from_secs(30);

/// The outcome of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// No answer can come: the user lacks a permission, or the broker takes no messages for now. Those
    /// who take jobs are then what ends an alarm.
    Impossible,
    /// No answer came in time.
    Unanswered,
}

/// Whether the consumers of a queue may take jobs.
#[derive(Debug)]
pub(crate) struct Gate {
    queue: String,
    state: Mutex<PauseState>,
    pauses: watch::Sender<Option<Pause>>,
    /// The number of questions that were wanted, and of those that were answered or given up.
    wanted: AtomicU64,
    done: watch::Sender<u64>,
    events: Notify,
}

impl Gate {
    fn new(queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            state: Mutex::default(),
            pauses: watch::Sender::default(),
            wanted: AtomicU64::new(0),
            done: watch::Sender::default(),
            events: Notify::new(),
        }
    }

    /// Asks anew, soon and again later. Returns the number of the first question.
    pub(super) fn ask_again(&self) -> u64 {
        let number = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        self.events.notify_one();
        number
    }

    /// Ends the wait for the answers to the questions up to this one. False if it had ended before.
    fn end_wait(&self, number: u64) -> bool {
        self.done.send_replace(number) != number
    }

    /// Ends the wait for answers: there are no more.
    fn end(&self) {
        self.done.send_replace(u64::MAX);
    }

    /// Somebody has paused the queue.
    pub(super) fn paused(&self, pause: Pause) {
        self.change(|state| state.notified_paused(pause, Instant::now()));
        self.ask_again();
    }

    /// Somebody has resumed the queue.
    pub(super) fn resumed(&self) {
        self.change(PauseState::notified_resumed);
        self.ask_again();
    }

    fn change(&self, change: impl FnOnce(&mut PauseState)) {
        let mut state = lock(&self.state);
        change(&mut state);
        let paused = &state.paused;
        self.pauses.send_if_modified(|known| {
            let is_news = known != paused;
            if is_news {
                known.clone_from(paused);
            }
            is_news
        });
    }
}

#[async_trait]
impl Valve for Gate {
    async fn recheck(&self) {
        let mut done = self.done.subscribe();
        let number = self.ask_again();
        let _ = done.wait_for(|done| *done >= number).await;
    }

    fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.pauses.subscribe()
    }

    fn is_shut(&self) -> bool {
        self.pauses.borrow().is_some()
    }
}

impl Control {
    /// The gate of a queue, which is kept while somebody has it.
    pub(super) fn gate(self: &Arc<Self>, queue: &str) -> Arc<Gate> {
        let mut gates = lock(&self.gates);
        if let Some(gate) = gates.get(queue).and_then(std::sync::Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(Gate::new(queue));
        gates.insert(queue.to_owned(), Arc::downgrade(&gate));
        let closing = self.broker.closing().clone();
        let keeping = Box::pin(Arc::clone(self).keep(Arc::clone(&gate)));
        let kept = Arc::downgrade(&gate);
        background::spawn(async move {
            closing.run_until_cancelled(keeping).await;
            if let Some(gate) = kept.upgrade() {
                gate.end();
            }
        });
        gate
    }

    /// Asks whether the queue is paused: at each event, then again, and from time to time.
    async fn keep(self: Arc<Self>, gate: Arc<Gate>) {
        let mut again = AGAIN.iter().copied();
        let mut unanswered: Option<Instant> = None;
        loop {
            let (wanted, start) = (gate.wanted.load(Ordering::Acquire), Instant::now());
            let outcome = self.look(&gate).await;
            if outcome == Outcome::Unanswered {
                let since = *unanswered.get_or_insert(start);
                if since.elapsed() >= UNANSWERED && gate.end_wait(wanted) {
                    tracing::warn!(
                        queue = gate.queue,
                        "pause state of the queue unknown; taking jobs"
                    );
                }
            } else {
                unanswered = None;
                gate.end_wait(wanted);
            }
            self.read_record(&gate).await;
            if self.is_unused(&gate) {
                return;
            }
            let wait = match again.next() {
                Some(wait) => wait,
                None if outcome != Outcome::Answered => AGAIN[0],
                None if lock(&gate.state).paused.is_some() => WHILE_PAUSED,
                None => WHILE_OPEN,
            };
            tokio::select! {
                () = gate.events.notified() => again = AGAIN.iter().copied(),
                () = sleep(wait) => {}
            }
        }
    }

    /// Whether nobody else has the gate; then it is forgotten.
    fn is_unused(&self, gate: &Arc<Gate>) -> bool {
        let mut gates = lock(&self.gates);
        let is_unused = Arc::strong_count(gate) == 1;
        if is_unused {
            gates.remove(&gate.queue);
        }
        is_unused
    }

    /// Asks whether the queue is paused, and follows the answer.
    async fn look(self: &Arc<Self>, gate: &Gate) -> Outcome {
        let notified = lock(&gate.state).notified;
        let patience = PATIENCE.min(self.broker.timeout() / 2);
        let asking = async {
            // It takes many answers of the broker, and would never be open if it were given up early.
            let own = self.queue().await?;
            let answer = timeout(patience, self.answer_on(&own, gate)).await;
            if answer.is_err() {
                self.replace(&own);
            }
            answer.unwrap_or(Ok(None))
        };
        match self.broker.unless_blocked("asking for a pause", asking).await {
            Ok(Some(is_paused)) => {
                gate.change(|state| state.answered(is_paused, notified, Instant::now()));
                Outcome::Answered
            }
            Ok(None) => Outcome::Unanswered,
            Err(error) => {
                tracing::debug!(
                    queue = gate.queue, %error,
                    "could not query the pause state of the queue"
                );
                let may_come = error.is_connection() || error.is_timeout();
                if may_come && !self.broker.publishing().is_blocked() {
                    Outcome::Unanswered
                } else {
                    Outcome::Impossible
                }
            }
        }
    }

    /// Whether the queue of a gate is paused. That a pause is over is asked twice, with the way back
    /// made anew in between: whoever deletes `{ns}.control.echo` deletes the way back of each client
    /// with it.
    async fn answer_on(&self, own: &ControlQueue, gate: &Gate) -> Result<Option<bool>> {
        let mut answer = self.is_paused_on(own, &gate.queue).await?;
        if answer == Some(false) && gate.is_shut() {
            own.bind_echo().await?;
            answer = self.is_paused_on(own, &gate.queue).await?;
        }
        if answer == Some(false) && lock(&gate.state).expects_pause() {
            return self.is_lost(own, &gate.queue).await.map(Some);
        }
        Ok(answer)
    }

    /// Whether the broker has lost the pause of a queue: its record, which a resume deletes first, is
    /// there. Then it is set again. A node that was killed 1.4 s after it had acknowledged a binding came
    /// back without it (RabbitMQ 3.10.8, on a machine with ten times the load that it can bear, 2 of
    /// 17 kills).
    async fn is_lost(&self, own: &ControlQueue, queue: &str) -> Result<bool> {
        let is_lost = self.record(queue).await.is_some();
        if is_lost {
            self.bind(&own.up, queue).await?;
            tracing::warn!(queue, "pause of the queue lost by the broker; restored");
        }
        Ok(is_lost)
    }

    /// Reads the record of a pause that is known by its binding alone.
    async fn read_record(self: &Arc<Self>, gate: &Gate) {
        if lock(&gate.state).lacks_record()
            && let Some(pause) = self.record(&gate.queue).await
        {
            gate.change(|state| {
                if state.lacks_record() {
                    state.paused = Some(pause);
                }
            });
        }
    }

    /// Ends a control queue from which nothing comes back, unless the broker takes nothing for now.
    pub(super) fn replace(&self, queue: &ControlQueue) {
        if self.broker.publishing().is_up() {
            queue.over.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_an_answer_after_the_end() {
        let gate = Gate::new("mail");
        let mut asking = Box::pin(gate.recheck());
        assert!(asking.as_mut().now_or_never().is_none());
        gate.end();
        assert!(asking.now_or_never().is_some());
        assert!(gate.recheck().now_or_never().is_some());
    }
}
