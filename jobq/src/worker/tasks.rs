//! The tasks of a queue that settle jobs.

use std::future::Future;
use std::sync::Mutex;

use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use crate::background;
use crate::guard::lock;

/// Tasks that end together.
#[derive(Debug)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    /// `None` once they were aborted.
    handles: Mutex<Option<Vec<AbortHandle>>>,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self { tracker: TaskTracker::new(), handles: Mutex::new(Some(Vec::new())) }
    }

    /// Starts a task in jobq's runtime, unless they were aborted.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut handles = lock(&self.handles);
        let Some(handles) = &mut *handles else { return };
        if handles.len() == handles.capacity() {
            // It grows with the tasks that run at once, not with all there ever were.
            handles.retain(|handle| !handle.is_finished());
        }
        handles.push(background::spawn(self.tracker.track_future(task)).abort_handle());
    }

    /// Waits until there is none.
    pub(super) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        self.tracker.reopen();
    }

    /// Aborts them, and waits until the last one is dropped. No further one starts.
    pub(super) async fn abort(&self) {
        for handle in lock(&self.handles).take().into_iter().flatten() {
            handle.abort();
        }
        self.ended().await;
    }

    pub(super) fn are_aborted(&self) -> bool {
        lock(&self.handles).is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn aborted_tasks_are_dropped_and_no_further_one_starts() {
        let (tasks, held) = (Tasks::new(), Arc::new(()));
        let task = |held: Arc<()>| async move {
            pending::<()>().await;
            drop(held);
        };
        for _ in 0..5 {
            tasks.spawn(task(Arc::clone(&held)));
        }
        assert!(!tasks.are_aborted());
        tasks.abort().await;
        tasks.spawn(task(Arc::clone(&held)));
        assert!(tasks.are_aborted() && Arc::strong_count(&held) == 1);
        tasks.ended().await;
    }

    #[tokio::test]
    async fn tasks_that_ended_are_not_kept() {
        let tasks = Tasks::new();
        for _ in 0..1_000 {
            tasks.spawn(async {});
            tasks.ended().await;
        }
        assert!(lock(&tasks.handles).as_ref().is_some_and(|handles| handles.len() < 10));
    }
}
