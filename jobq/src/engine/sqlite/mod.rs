//! The engine for `sqlite:` URLs: one file, through `rusqlite`.
//!
//! One thread, the [`writer`], owns the connection. What callers want waits in its
//! inbox, and everything that waits is done in one transaction, so that many callers
//! share the price of one write to the disk. A call is answered when its transaction
//! is committed, and on the disk.
//!
//! Several processes may share the file. Each engine that takes jobs is an *owner*, a
//! row that it renews for as long as it lives (see [`lease`]); a job in hand names its
//! owner, so the jobs of an owner that died go back to their queues.

mod claim;
mod columns;
mod disk;
mod failed;
mod failure;
mod feed;
mod inbox;
mod lease;
mod place;
mod push;
mod queues;
mod schema;
mod settle;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{Consumer, Counts, Engine, EngineOptions, QueueSpec, Which, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, FailedJob, JobId};

use failure::Failure;
use inbox::{Command, Inbox};
use place::Place;

/// How long an engine that died keeps the jobs that it had in hand. A shorter time
/// would hand out jobs twice where a machine is busy or a process is held up.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Opens the file that a URL names, and makes it where there is none.
pub(crate) async fn open(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    open_with_lease(url, options, LEASE).await
}

/// [`open`] with a lease for tests, which do not want to wait for [`LEASE`].
pub(crate) async fn open_with_lease(
    url: &str,
    options: EngineOptions,
    lease: Duration,
) -> Result<Arc<dyn Engine>> {
    let place = Place::parse(url)?;
    let (answer, opened) = oneshot::channel();
    let (inbox, commands) = Inbox::new();
    let for_receipts = inbox.clone();
    let thread = std::thread::Builder::new().name("jobq-sqlite".to_owned());
    let spawned = thread.spawn(move || match schema::open(&place, options.timeout) {
        Ok(connection) => {
            let _ = answer.send(Ok(()));
            writer::run(connection, place, options.namespace, lease, for_receipts, commands);
        }
        Err(error) => drop(answer.send(Err(error))),
    });
    if let Err(source) = spawned {
        let message = "the system gives no thread to write the job file with";
        return Err(Error::new(ErrorKind::Refused, message).because(source));
    }
    // Made before the wait, so that a caller who gives up closes the file.
    let engine = Sqlite { inbox };
    opened.await.unwrap_or_else(|_| Err(closed()))?;
    Ok(Arc::new(engine))
}

/// The engine: a way to the thread that does the work.
#[derive(Debug)]
struct Sqlite {
    inbox: Inbox,
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let _ = self.inbox.send(Command::Close(None));
    }
}

#[async_trait]
impl Engine for Sqlite {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        if queues.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = queues.iter().map(|queue| queue.name.clone()).collect();
        self.inbox.call(move |store| queues::declare(store, &names)).await
    }

    async fn push(&self, jobs: Vec<Envelope>) -> Vec<Result<()>> {
        let count = jobs.len();
        if count == 0 {
            return Vec::new();
        }
        match self.inbox.try_call(move |store| push::insert(store, &jobs)).await {
            Ok(answers) => answers,
            Err(failure) => (0..count).map(|_| Err(failure.error())).collect(),
        }
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Consumer> {
        let name = queue.to_owned();
        let found = self.inbox.call(move |store| store.queue(&name)).await?;
        let id = found.ok_or_else(|| queues::unknown(queue))?;
        feed::start(&self.inbox, id, queue, prefetch)
    }

    async fn counts(&self, queue: &str) -> Result<Counts> {
        let queue = queue.to_owned();
        self.inbox.call(move |store| queues::counts(store, &queue)).await
    }

    async fn failed_list(&self, queue: &str, limit: usize) -> Result<Vec<FailedJob>> {
        let queue = queue.to_owned();
        self.inbox.call(move |store| failed::list(store, &queue, limit)).await
    }

    async fn failed_find(&self, queue: &str, id: JobId) -> Result<Option<FailedJob>> {
        let queue = queue.to_owned();
        self.inbox.call(move |store| failed::find(store, &queue, id)).await
    }

    async fn failed_retry(&self, queue: &str, which: Which) -> Result<u64> {
        let queue = queue.to_owned();
        self.inbox.call(move |store| failed::retry(store, &queue, which)).await
    }

    async fn failed_discard(&self, queue: &str, which: Which) -> Result<u64> {
        let queue = queue.to_owned();
        self.inbox.call(move |store| failed::discard(store, &queue, which)).await
    }

    async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.inbox.send(Command::Close(Some(done))).is_ok() {
            // Where it is not answered, the thread has ended already.
            let _ = closed.await;
        }
    }
}
