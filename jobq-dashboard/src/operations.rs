//! Operations on failed jobs that run in this process.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::http::StatusCode;
use jobq::FailedJobs;
use jobq::admin::text::remarks;
use jobq::admin::{Done, End, Filter, Operation, Phase, Progress, Running, Stop};
use tokio::sync::{Notify, watch};

use crate::access::Action;
use crate::problem::Problem;
use crate::show::count;

/// The most operations that run at once.
const AT_ONCE: usize = 16;
/// The most operations that are remembered.
const REMEMBERED: usize = 200;

/// The effect of an operation on failed jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Retry,
    Discard,
}

impl OperationKind {
    /// The one of a path.
    pub(crate) fn parse(path: &str) -> Result<Self, Problem> {
        let kind = [Self::Retry, Self::Discard].into_iter().find(|kind| kind.path() == path);
        kind.ok_or_else(Problem::not_found)
    }

    /// The action that a viewer needs for it.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Retry => Action::Retry,
            Self::Discard => Action::Discard,
        }
    }

    /// The operation on these failed jobs.
    pub(crate) fn of(self, failed: &FailedJobs, filter: Filter) -> Operation {
        match self {
            Self::Retry => failed.retry_where(filter),
            Self::Discard => failed.discard_where(filter),
        }
    }

    /// For paths.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Discard => "discard",
        }
    }

    /// As an order.
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Discard => "Discard",
        }
    }

    pub(crate) fn past(self) -> &'static str {
        match self {
            Self::Retry => "retried",
            Self::Discard => "discarded",
        }
    }
}

/// The purpose of an operation.
#[derive(Debug)]
pub(crate) struct What {
    pub(crate) queue: String,
    pub(crate) kind: OperationKind,
    pub(crate) filter: String,
    pub(crate) actor: String,
}

/// An operation.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) id: u64,
    pub(crate) what: What,
    pub(crate) at: SystemTime,
    progress: watch::Receiver<Progress>,
    cancel: Notify,
    end: watch::Sender<Option<Summary>>,
}

/// The end of an operation, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) class: &'static str,
    pub(crate) text: String,
    pub(crate) details: Vec<String>,
}

impl Started {
    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    pub(crate) fn end(&self) -> Option<Summary> {
        self.end.borrow().clone()
    }

    pub(crate) fn cancel(&self) {
        self.cancel.notify_one();
    }

    /// Waits for the end of what runs.
    async fn run(&self, running: Running, changed: impl Fn()) {
        let mut progress = self.progress.clone();
        loop {
            tokio::select! {
                () = self.cancel.notified() => running.cancel(),
                change = progress.changed() => {
                    changed();
                    if change.is_err() || progress.borrow().phase == Phase::Ended {
                        break;
                    }
                }
            }
        }
        let summary = summary(self.what.kind, running.finish().await);
        self.end.send_replace(Some(summary));
    }
}

/// The operations of this process, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Operations(Mutex<(u64, VecDeque<Arc<Started>>)>);

impl Operations {
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Started>> {
        let operations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        operations.1.iter().find(|started| started.id == id).cloned()
    }

    /// The operations that run on a queue.
    pub(crate) fn of_queue(&self, queue: &str) -> Vec<Arc<Started>> {
        let operations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = |started: &&Arc<Started>| started.what.queue == queue && started.end().is_none();
        operations.1.iter().filter(runs).cloned().collect()
    }

    /// Cancels the operations that run, and waits for their ends: a pass that has begun is finished.
    pub(crate) async fn end(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
        for started in &all {
            started.cancel();
        }
        for started in all {
            // Its sender is within itself.
            let _ = started.end.subscribe().wait_for(Option::is_some).await;
        }
    }

    /// Starts an operation, and calls `changed` at its progress and `ended` at its end.
    pub(crate) fn start(
        &self,
        operation: Operation,
        what: What,
        changed: impl Fn() + Send + 'static,
        ended: impl FnOnce(&Started, &Summary) + Send + 'static,
    ) -> Result<Arc<Started>, Problem> {
        let mut operations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, all) = &mut *operations;
        if all.iter().filter(|started| started.end().is_none()).count() >= AT_ONCE {
            return Err(Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many operations",
                "Sixteen operations are already running. Wait for one to end, or cancel one.",
            ));
        }
        let running = operation.start()?;
        *last += 1;
        let started = Arc::new(Started {
            id: *last,
            what,
            at: SystemTime::now(),
            progress: running.progress(),
            cancel: Notify::new(),
            end: watch::Sender::default(),
        });
        all.push_back(Arc::clone(&started));
        forget(all, |started| started.end().is_some());
        let theirs = Arc::clone(&started);
        tokio::spawn(async move {
            theirs.run(running, changed).await;
            if let Some(summary) = theirs.end() {
                ended(&theirs, &summary);
            }
        });
        Ok(started)
    }
}

/// Forgets the oldest one that has ended, if there are too many. One that runs must be found to be
/// cancelled.
fn forget<T>(all: &mut VecDeque<T>, has_ended: impl Fn(&T) -> bool) {
    if all.len() > REMEMBERED
        && let Some(oldest) = all.iter().position(has_ended)
    {
        all.remove(oldest);
    }
}

/// The summary of an operation.
fn summary(kind: OperationKind, done: jobq::Result<Done>) -> Summary {
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            return Summary {
                class: "bad",
                text: format!("Nothing was changed: {error}"),
                details: Vec::new(),
            };
        }
    };
    let past = kind.past();
    let mut text = match done.matched {
        0 if matches!(done.end, End::Finished) => {
            "No failed job matches any more. Nothing was changed.".to_owned()
        }
        0 => "Nothing was changed.".to_owned(),
        1 if done.settled == 1 => format!("The job was {past}."),
        matched => format!("{} of {} jobs were {past}.", count(done.settled), count(matched)),
    };
    let class = match &done.end {
        End::Finished if done.settled == done.matched => "good",
        End::Finished | End::Cancelled | End::Stopped(Stop::TooMany) => "warn",
        _ => "bad",
    };
    for remark in remarks(&done) {
        let _ = write!(text, " Note: {remark}.");
    }
    let refused = done.refused.iter().take(20);
    let details = refused.map(|(id, error)| format!("{id} stays failed: {error}")).collect();
    Summary { class, text, details }
}

#[cfg(test)]
mod tests {
    use jobq::{BoxError, Client, WorkerPool};

    use super::*;

    #[jobq::job(queue = "mail")]
    async fn refuse() -> Result<(), BoxError> {
        Err(jobq::abort("no").into())
    }

    #[tokio::test]
    async fn the_end_cancels_what_runs_and_waits_for_it() {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let pool = WorkerPool::new(&client).register::<Refuse>().spawn().await.unwrap();
        for _ in 0..2 {
            client.enqueue(Refuse {}).await.unwrap();
        }
        let failed = client.failed("mail");
        while failed.list(2).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        pool.shutdown().await.unwrap();
        let operations = Operations::default();
        // One job in ten thousand seconds: it waits after the first.
        let slow = failed.retry_where(Filter::new()).rate(0.0001);
        let what = What {
            queue: "mail".into(),
            kind: OperationKind::Retry,
            filter: String::new(),
            actor: String::new(),
        };
        let started = operations.start(slow, what, || (), |_, _| ()).unwrap();
        let mut progress = started.progress.clone();
        progress.wait_for(|progress| progress.settled == 1).await.unwrap();
        operations.end().await;
        let text = started.end().unwrap().text;
        assert_eq!(
            text,
            "The job was retried. Note: the operation was cancelled; the remaining jobs stay failed."
        );
        operations.end().await;
    }

    #[test]
    fn an_operation_that_runs_is_not_forgotten() {
        let mut all: VecDeque<usize> = (0..REMEMBERED).collect();
        let runs = [0, 2];
        for new in REMEMBERED..REMEMBERED + 3 {
            all.push_back(new);
            forget(&mut all, |id| !runs.contains(id));
            assert_eq!(all.len(), REMEMBERED);
        }
        assert_eq!(all.iter().take(3).collect::<Vec<_>>(), [&0, &2, &5]);
    }
}
