//! What waits until a connection has handled all that it has read or written.
//!
//! `lapin` wakes whoever waits for a message, a confirm or a write with the first one of all
//! that it has read or written, and holds the locks meanwhile that they need next. Woken at
//! once, they take the processor from its thread, stand at the lock, and come back for the next
//! one: more than one change of threads a job where the processors are busy. Woken after the
//! last, they find all that there is.
//!
//! What is little is done then by the thread of the connection itself, in place of waking another
//! one for it, and before anybody is woken.
//!
//! Wakes wait only from a read or a write until the socket is asked for anything else. After a
//! read the socket has `lapin` come back, whatever it does then. After a write `lapin` flushes at
//! once, and if a version of it did not, wakes would wait until it next uses the socket.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// In place of a number of turns.
const OVER: u64 = u64::MAX;

/// Holds back the wakes of one connection. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cork(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// How often the cork was pulled out, or [`OVER`].
    turns: AtomicU64,
}

#[derive(Default)]
struct State {
    is_in: bool,
    work: Held<Arc<dyn Work>>,
    /// Who is to be woken.
    waiting: Held<Waker>,
}

/// What is held back, and the memory for what comes after it.
struct Held<T> {
    now: Vec<T>,
    spare: Vec<T>,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { now: Vec::new(), spare: Vec::new() }
    }
}

impl<T> Held<T> {
    fn take(&mut self) -> Vec<T> {
        std::mem::replace(&mut self.now, std::mem::take(&mut self.spare))
    }
}

/// What goes on when the cork is pulled out. `lapin` holds no lock then.
pub(crate) trait Work: Send + Sync {
    /// Does what can be done now, which is little, and wakes through the cork.
    fn go_on(self: Arc<Self>);
}

impl Cork {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Work and wakes wait from now on.
    pub(crate) fn put_in(&self) {
        self.state().is_in = true;
    }

    /// Does the work that has waited, and then wakes whoever was to be woken; who is to be
    /// woken later is, at once.
    pub(crate) fn pull_out(&self) {
        self.0.turns.fetch_add(1, Ordering::Release);
        let mut state = self.state();
        while !state.work.now.is_empty() {
            let mut work = state.work.take();
            drop(state);
            work.drain(..).for_each(Work::go_on);
            state = self.state();
            state.work.spare = work;
        }
        state.is_in = false;
        if state.waiting.now.is_empty() {
            return;
        }
        let mut waiting = state.waiting.take();
        drop(state);
        waiting.drain(..).for_each(Waker::wake);
        self.state().waiting.spare = waiting;
    }

    /// A number that is another one after anything that the connection has handled; none after
    /// its end.
    pub(crate) fn turn(&self) -> Option<u64> {
        Some(self.0.turns.load(Ordering::Acquire)).filter(|turn| *turn != OVER)
    }

    /// The connection has a socket from now on, which pulls this cork out.
    pub(crate) fn begin(&self) {
        self.0.turns.store(0, Ordering::Release);
    }

    /// The connection is over: pulls the cork out for the last time.
    pub(crate) fn end(&self) {
        self.pull_out();
        self.0.turns.store(OVER, Ordering::Release);
    }

    /// Has this work go on when the cork is pulled out. False where the cork is not in.
    pub(crate) fn hold<W: Work + 'static>(&self, work: &Arc<W>) -> bool {
        let mut state = self.state();
        if state.is_in {
            state.work.now.push(Arc::clone(work) as Arc<dyn Work>);
        }
        state.is_in
    }

    /// Wakes this one, when the cork is pulled out if it is in.
    pub(crate) fn wake(&self, waker: Waker) {
        let mut state = self.state();
        if state.is_in {
            state.waiting.now.push(waker);
        } else {
            drop(state);
            waker.wake();
        }
    }

    /// A waker that wakes this one through the cork, once however often it is woken meanwhile.
    pub(crate) fn waker(&self, waker: Waker) -> Waker {
        let is_held = AtomicBool::new(false);
        Waker::from(Arc::new(Corked { cork: self.clone(), waker, is_held }))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("is_in", &self.is_in).finish_non_exhaustive()
    }
}

struct Corked {
    cork: Cork,
    waker: Waker,
    is_held: AtomicBool,
}

impl Wake for Corked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_held.swap(true, Ordering::AcqRel) && !self.cork.hold(self) {
            self.is_held.swap(false, Ordering::AcqRel);
            self.waker.wake_by_ref();
        }
    }
}

impl Work for Corked {
    fn go_on(self: Arc<Self>) {
        // Before it is woken, so that who wakes it later wakes it again.
        self.is_held.swap(false, Ordering::AcqRel);
        self.cork.wake(self.waker.clone());
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

    /// Work that wakes somebody, and goes on once more as long as there is a reason.
    struct Waking {
        cork: Cork,
        waker: Waker,
        count: Arc<Count>,
        more: AtomicUsize,
    }

    impl Work for Waking {
        fn go_on(self: Arc<Self>) {
            assert_eq!(self.count.get(), 0, "nobody is woken before the work is done");
            self.cork.wake(self.waker.clone());
            if self.more.fetch_sub(1, Ordering::SeqCst) > 0 {
                assert!(self.cork.hold(&self));
            }
        }
    }

    #[test]
    fn work_is_done_before_anybody_is_woken() {
        let cork = Cork::default();
        let (count, waker) = counted();
        let more = AtomicUsize::new(2);
        let work = Waking { cork: cork.clone(), waker, count: Arc::clone(&count), more };
        let work = Arc::new(work);
        assert!(!cork.hold(&work), "the cork is not in");
        cork.put_in();
        assert!(cork.hold(&work));
        assert_eq!(work.more.load(Ordering::SeqCst), 2, "it waits");
        cork.pull_out();
        assert_eq!((work.more.load(Ordering::SeqCst), count.get()), (usize::MAX, 3));
        assert!(!cork.hold(&work), "the cork is out again");
    }

    #[test]
    fn each_turn_has_a_number_and_the_end_has_none() {
        let cork = Cork::default();
        let turns = [cork.turn(), {
            cork.pull_out();
            cork.turn()
        }];
        assert!(turns[0].is_some() && turns[1].is_some() && turns[0] != turns[1]);
        cork.end();
        assert_eq!(cork.turn(), None);
        cork.begin();
        assert!(cork.turn().is_some(), "another socket for the same connection");
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
