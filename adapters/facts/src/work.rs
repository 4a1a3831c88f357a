//! A job that notes its runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jobq::relay::Source;
use jobq::{BoxError, Client, JobContext, JobId, RunningPool, State, WorkerPool, job};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a run may take to happen, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Effect {
    pub text: String,
    pub id: JobId,
    pub tenant: Option<String>,
    pub topic: Option<String>,
    pub due: SystemTime,
    pub enqueued_by: Option<String>,
    pub started: SystemTime,
}

/// What has run.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    all: Arc<Mutex<Vec<Effect>>>,
    count: watch::Sender<usize>,
}

impl Effects {
    /// Notes a run.
    pub fn note(&self, text: impl Into<String>, ctx: &JobContext) {
        let effect = effect(text.into(), ctx);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(effect);
        self.count.send_replace(all.len());
    }

    /// All of them, in their order.
    #[must_use]
    pub fn all(&self) -> Vec<Effect> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until there are at least so many, and gives them.
    pub async fn until(&self, count: usize) -> Vec<Effect> {
        let mut counts = self.count.subscribe();
        let waiting = timeout(LIMIT, counts.wait_for(|seen| *seen >= count)).await;
        let all = self.all();
        assert!(waiting.is_ok(), "{} of {count} jobs ran in {LIMIT:?}: {all:?}", all.len());
        all
    }
}

fn effect(text: String, ctx: &JobContext) -> Effect {
    Effect {
        text,
        id: ctx.id(),
        tenant: ctx.header("tenant").map(Into::into),
        topic: ctx.topic().map(Into::into),
        due: ctx.due(),
        enqueued_by: ctx.enqueued_by().map(Into::into),
        started: ctx.now(),
    }
}

/// A job that notes that it ran.
#[job(queue = "notes", concurrency = 1)]
pub async fn note(text: String, effects: State<Effects>, ctx: JobContext) -> Result<(), BoxError> {
    effects.note(text, &ctx);
    Ok(())
}

/// A job that notes an event.
#[job(queue = "note-events", on = "shop.*")]
pub async fn note_event(
    event: String,
    effects: State<Effects>,
    ctx: JobContext,
) -> Result<(), BoxError> {
    effects.note(event, &ctx);
    Ok(())
}

/// A pool that notes what runs, with a relay.
pub async fn pool(client: &Client, outbox: impl Source) -> (RunningPool, Effects) {
    start(client, |pool| pool.relay(outbox)).await
}

/// A pool that notes what runs, on the file in which the rows are: it needs no relay.
pub async fn pool_alone(client: &Client) -> (RunningPool, Effects) {
    start(client, |pool| pool).await
}

async fn start(
    client: &Client,
    with: impl FnOnce(WorkerPool) -> WorkerPool,
) -> (RunningPool, Effects) {
    let effects = Effects::default();
    let pool =
        WorkerPool::new(client).state(effects.clone()).register::<Note>().register::<NoteEvent>();
    (with(pool).spawn().await.expect("the pool starts"), effects)
}
