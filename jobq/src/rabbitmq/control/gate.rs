//! The gate of a queue: whether its consumers may take jobs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::Control;
use super::belief::Belief;
use crate::background;
use crate::engine::Pause;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// The waits between the questions after an event: on a cluster, two nodes may see a binding at
/// different moments.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// How often it is asked while the queue is paused, and otherwise: an order may have been lost with
/// a control queue.
const WHILE_PAUSED: Duration = Duration::from_secs(5);
const WHILE_OPEN: Duration = Duration::from_secs(30);

/// Whether the consumers of a queue may take jobs.
#[derive(Debug)]
pub(crate) struct Gate {
    queue: String,
    belief: Mutex<Belief>,
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
            belief: Mutex::default(),
            pauses: watch::Sender::default(),
            wanted: AtomicU64::new(0),
            done: watch::Sender::default(),
            events: Notify::new(),
        }
    }

    /// The pause of the queue, if it is paused, and its changes.
    pub(crate) fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.pauses.subscribe()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.borrow().is_some()
    }

    /// Asks anew, and returns when there is an answer, or none in time.
    pub(crate) async fn ask(&self) {
        let mut done = self.done.subscribe();
        let number = self.doubt();
        let _ = done.wait_for(|done| *done >= number).await;
    }

    /// Asks anew, soon and again later. Returns the number of the first question.
    pub(super) fn doubt(&self) -> u64 {
        let number = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        self.events.notify_one();
        number
    }

    /// Ends the wait for answers: there are no more.
    fn end(&self) {
        self.done.send_replace(u64::MAX);
    }

    /// Somebody has paused the queue.
    pub(super) fn paused(&self, pause: Pause) {
        self.change(|belief| belief.told_paused(pause, Instant::now()));
        self.doubt();
    }

    /// Somebody has resumed the queue.
    pub(super) fn resumed(&self) {
        self.change(Belief::told_resumed);
        self.doubt();
    }

    fn belief(&self) -> MutexGuard<'_, Belief> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Belief)) {
        let mut belief = self.belief();
        change(&mut belief);
        let paused = &belief.paused;
        self.pauses.send_if_modified(|known| {
            let is_news = known != paused;
            if is_news {
                known.clone_from(paused);
            }
            is_news
        });
    }
}

impl Control {
    /// The gate of a queue, which is kept while somebody has it.
    pub(crate) fn gate(self: &Arc<Self>, queue: &str) -> Arc<Gate> {
        let mut gates = self.gates();
        if let Some(gate) = gates.get(queue).and_then(std::sync::Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(Gate::new(queue));
        gates.insert(queue.to_owned(), Arc::downgrade(&gate));
        let closing = self.broker.closing().clone();
        let keeping = Arc::clone(self).keep(Arc::clone(&gate));
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
        loop {
            let is_answered = self.look(&gate).await;
            if self.is_unused(&gate) {
                return;
            }
            let wait = match again.next() {
                Some(wait) => wait,
                None if !is_answered => AGAIN[0],
                None if gate.belief().paused.is_some() => WHILE_PAUSED,
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
        let mut gates = self.gates();
        let is_unused = Arc::strong_count(gate) == 1;
        if is_unused {
            gates.remove(&gate.queue);
        }
        is_unused
    }

    /// Asks whether the queue is paused, and follows the answer. False if there is none.
    async fn look(self: &Arc<Self>, gate: &Gate) -> bool {
        let (wanted, told) = (gate.wanted.load(Ordering::Acquire), gate.belief().told);
        let answer = timeout(PATIENCE, self.is_paused(&gate.queue)).await;
        let is_answered = match answer {
            Ok(Ok(is_paused)) => {
                gate.change(|belief| belief.answered(is_paused, told, Instant::now()));
                true
            }
            Ok(Err(error)) => {
                tracing::debug!(queue = gate.queue, %error, "whether a queue is paused is not known");
                false
            }
            Err(_) => {
                self.replace_queue().await;
                false
            }
        };
        gate.done.send_replace(wanted);
        if gate.belief().lacks_record()
            && let Some(pause) = self.record(&gate.queue).await
        {
            gate.change(|belief| {
                if belief.lacks_record() {
                    belief.paused = Some(pause);
                }
            });
        }
        is_answered
    }

    /// Ends a control queue from which nothing comes back, unless the broker takes nothing for now.
    pub(super) async fn replace_queue(&self) {
        let publishing = self.broker.publishing();
        if publishing.is_up()
            && let Some(queue) = &*self.queue.lock().await
        {
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
        let mut asking = Box::pin(gate.ask());
        assert!(asking.as_mut().now_or_never().is_none());
        gate.end();
        assert!(asking.now_or_never().is_some());
        assert!(gate.ask().now_or_never().is_some());
    }
}
