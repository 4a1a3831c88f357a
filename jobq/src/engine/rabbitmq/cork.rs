//! Wakes that wait until a connection has handled all that it has read or written.
//!
//! `lapin` wakes whoever waits for a message, a confirm or a write with the first one of all
//! that it has read or written, and holds the locks meanwhile that they need next. Woken at
//! once, they take the processor from its thread, stand at the lock, and come back for the next
//! one: more than one change of threads a job where the processors are busy. Woken after the
//! last, they find all that there is.
//!
//! Wakes wait only from a read or a write until the socket is asked for anything else. After a
//! read the socket has `lapin` come back, whatever it does then. After a write `lapin` flushes at
//! once, and if a version of it did not, wakes would wait until it next uses the socket.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Holds back the wakes of one connection. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cork(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_in: bool,
    /// Who is to be woken, each once.
    waiting: Vec<Waker>,
}

impl Cork {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes wait from now on.
    pub(crate) fn put_in(&self) {
        self.state().is_in = true;
    }

    /// Wakes whoever was to be woken meanwhile; who is to be woken later is, at once.
    pub(crate) fn pull_out(&self) {
        let mut state = self.state();
        state.is_in = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn wake(&self, waker: &Waker) {
        let mut state = self.state();
        if !state.is_in {
            drop(state);
            waker.wake_by_ref();
        } else if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
    }

    /// A waker that wakes this one through the cork.
    pub(crate) fn waker(&self, waker: Waker) -> Waker {
        Waker::from(Arc::new(Corked { cork: self.clone(), waker }))
    }
}

struct Corked {
    cork: Cork,
    waker: Waker,
}

impl Wake for Corked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.cork.wake(&self.waker);
    }
}

/// The waker of a task that is polled again and again, through a cork.
#[derive(Debug)]
pub(crate) struct CorkedTask {
    cork: Cork,
    /// The waker that was seen last, and the one that wakes it.
    known: Option<(Waker, Waker)>,
}

impl CorkedTask {
    pub(crate) fn new(cork: Cork) -> Self {
        Self { cork, known: None }
    }

    /// The one that wakes this waker.
    pub(crate) fn waker(&mut self, waker: &Waker) -> &Waker {
        let known = self.known.take().filter(|(known, _)| known.will_wake(waker));
        let known = known.unwrap_or_else(|| (waker.clone(), self.cork.waker(waker.clone())));
        &self.known.insert(known).1
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// How often it was woken.
    #[derive(Default)]
    pub(crate) struct Count(AtomicUsize);

    impl Count {
        pub(crate) fn get(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn counted() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn wakes_wait_for_the_cork_and_each_is_one() {
        let cork = Cork::default();
        let ((first, one), (second, other)) = (counted(), counted());
        let (one, other) = (cork.waker(one), cork.waker(other));
        let woken = || (first.get(), second.get());
        one.wake_by_ref();
        assert_eq!(woken(), (1, 0), "at once");
        cork.put_in();
        (0..3).for_each(|_| one.wake_by_ref());
        other.wake_by_ref();
        assert_eq!(woken(), (1, 0));
        cork.pull_out();
        assert_eq!(woken(), (2, 1));
        cork.pull_out();
        assert_eq!(woken(), (2, 1), "nobody is left");
        other.wake();
        assert_eq!(woken(), (2, 2), "at once again");
    }

    #[test]
    fn a_task_has_one_waker_for_as_long_as_it_is_the_same() {
        let mut task = CorkedTask::new(Cork::default());
        let ((first, one), (second, other)) = (counted(), counted());
        let corked = task.waker(&one).clone();
        assert!(task.waker(&one).will_wake(&corked));
        assert!(!task.waker(&other).will_wake(&corked));
        task.waker(&other).wake_by_ref();
        assert_eq!((first.get(), second.get()), (0, 1));
    }
}
