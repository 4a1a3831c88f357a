//! Brings the queues of a pool to rest, so that a job can be run alone.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, watch};

/// Stands before the queues of a pool. While it is open they take jobs; whoever closes it
/// waits until all of them rest.
#[derive(Debug)]
pub(crate) struct Gate {
    turn: Mutex<()>,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    closed: bool,
    /// How many queues have passed and do not rest.
    busy: usize,
}

/// The closed gate. It is open again when this is dropped.
#[derive(Debug)]
pub(crate) struct Closed<'g> {
    gate: &'g Gate,
    _turn: MutexGuard<'g, ()>,
}

/// A queue that takes jobs. It rests when this is dropped.
#[derive(Debug)]
pub(crate) struct Passed(Arc<Gate>);

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { turn: Mutex::default(), state: watch::Sender::default() })
    }

    /// Closes the gate, and returns when every queue rests.
    pub(crate) async fn close(&self) -> Closed<'_> {
        let turn = self.turn.lock().await;
        // Made before the wait, so that a caller who gives up opens it again.
        let closed = Closed { gate: self, _turn: turn };
        self.state.send_modify(|state| state.closed = true);
        // The sender is this gate's own.
        let _ = self.state.subscribe().wait_for(|state| state.busy == 0).await;
        closed
    }

    /// Lets a queue take jobs, if the gate is open.
    pub(crate) fn try_pass(self: &Arc<Self>) -> Option<Passed> {
        let passed = self.state.send_if_modified(|state| {
            state.busy += usize::from(!state.closed);
            !state.closed
        });
        passed.then(|| Passed(Arc::clone(self)))
    }

    /// Returns when the gate is open, and the queue may take jobs.
    pub(crate) async fn pass(self: &Arc<Self>) -> Passed {
        let mut state = self.state.subscribe();
        loop {
            let _ = state.wait_for(|state| !state.closed).await;
            if let Some(passed) = self.try_pass() {
                return passed;
            }
        }
    }

    /// Returns when somebody closes the gate.
    pub(crate) async fn closing(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.closed).await;
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.state.send_modify(|state| state.closed = false);
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.busy -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_closes_when_the_last_queue_rests() {
        let gate = Gate::new();
        let (one, other) = (gate.pass().await, gate.pass().await);
        assert!(gate.closing().now_or_never().is_none());
        let mut closing = Box::pin(gate.close());
        assert!(closing.as_mut().now_or_never().is_none());
        assert!(gate.closing().now_or_never().is_some(), "the queues are told");
        drop(one);
        assert!(closing.as_mut().now_or_never().is_none());
        assert!(gate.pass().now_or_never().is_none(), "nobody passes meanwhile");
        drop(other);
        let closed = closing.await;
        assert!(gate.pass().now_or_never().is_none());
        assert!(gate.close().now_or_never().is_none(), "one at a time");
        drop(closed);
        assert!(gate.pass().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_gives_up_leaves_it_open() {
        let gate = Gate::new();
        let passed = gate.pass().await;
        assert!(gate.close().now_or_never().is_none());
        assert!(gate.pass().now_or_never().is_some());
        drop(passed);
        assert!(gate.close().now_or_never().is_some());
    }
}
