//! The lock of a solo run: while one job runs alone, the queues of its pool take no jobs.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, watch};

/// Entered by each queue that takes jobs. Locking waits until all queues have left.
#[derive(Debug)]
pub(crate) struct SoloLock {
    turn: Mutex<()>,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_locked: bool,
    /// How many queues have entered and not left.
    entered: usize,
}

/// The lock, held for a solo run. Dropping it lets the queues enter again.
#[derive(Debug)]
pub(crate) struct Locked<'l> {
    lock: &'l SoloLock,
    _turn: MutexGuard<'l, ()>,
}

/// A queue that takes jobs. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Entered(Arc<SoloLock>);

impl SoloLock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { turn: Mutex::default(), state: watch::Sender::default() })
    }

    /// Keeps queues from entering, and returns when all have left.
    pub(crate) async fn lock(&self) -> Locked<'_> {
        let turn = self.turn.lock().await;
        // Made before the wait, so that dropping the future unlocks it again.
        let locked = Locked { lock: self, _turn: turn };
        self.state.send_modify(|state| state.is_locked = true);
        // Cannot fail: the lock owns the sender.
        let _ = self.state.subscribe().wait_for(|state| state.entered == 0).await;
        locked
    }

    /// Enters, unless the lock is held or requested.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<Entered> {
        let entered = self.state.send_if_modified(|state| {
            state.entered += usize::from(!state.is_locked);
            !state.is_locked
        });
        entered.then(|| Entered(Arc::clone(self)))
    }

    /// Waits until it can enter.
    pub(crate) async fn enter(self: &Arc<Self>) -> Entered {
        let mut state = self.state.subscribe();
        loop {
            let _ = state.wait_for(|state| !state.is_locked).await;
            if let Some(entered) = self.try_enter() {
                return entered;
            }
        }
    }

    /// Returns when the lock is requested.
    pub(crate) async fn requested(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.is_locked).await;
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.lock.state.send_modify(|state| state.is_locked = false);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.entered -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_is_held_when_the_last_queue_has_left() {
        let lock = SoloLock::new();
        let (one, other) = (lock.enter().await, lock.enter().await);
        assert!(lock.requested().now_or_never().is_none());
        let mut locking = Box::pin(lock.lock());
        assert!(locking.as_mut().now_or_never().is_none());
        assert!(lock.requested().now_or_never().is_some(), "the queues are told");
        drop(one);
        assert!(locking.as_mut().now_or_never().is_none());
        assert!(lock.enter().now_or_never().is_none(), "nobody passes meanwhile");
        drop(other);
        let closed = locking.await;
        assert!(lock.enter().now_or_never().is_none());
        assert!(lock.lock().now_or_never().is_none(), "one at a time");
        drop(closed);
        assert!(lock.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn dropping_the_request_unlocks_it() {
        let lock = SoloLock::new();
        let entered = lock.enter().await;
        assert!(lock.lock().now_or_never().is_none());
        assert!(lock.enter().now_or_never().is_some());
        drop(entered);
        assert!(lock.lock().now_or_never().is_some());
    }
}
