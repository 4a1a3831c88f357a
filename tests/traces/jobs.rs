//! The jobs of the traces, and a pool of all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobq::{
    BoxError, Client, Event, JobContext, RunningPool, State, Trace, WorkerPool, abort, job,
};
use jobq_opentelemetry::OpenTelemetry;
use jobq_tests::test_store::{DEADLINE, Store, soon};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

pub(crate) type Done = mpsc::UnboundedSender<&'static str>;

/// Fails once, then enqueues another job.
#[job(retries = 3, delay = "100ms")]
pub(crate) async fn pay(order: u64, ctx: JobContext, done: State<Done>) -> Result<(), BoxError> {
    if ctx.attempt() == 1 {
        return Err("the bank is busy".into());
    }
    ctx.client().enqueue(Ship { order }).await?;
    Ok(done.send("pay")?)
}

#[job]
pub(crate) async fn ship(order: u64, done: State<Done>) -> Result<(), BoxError> {
    done.send("ship").map_err(|_| format!("nobody waits for order {order}"))?;
    Ok(())
}

/// Ends in another way with each attempt.
#[job(retries = 5, delay = "100ms")]
pub(crate) async fn suffer(ctx: JobContext, done: State<Done>) -> Result<(), BoxError> {
    match ctx.attempt() {
        1 => panic!("no paper"),
        2 => Err("no ink".into()),
        3 => Err(jobq::retry_in(Duration::from_millis(170), "busy").into()),
        _ => {
            done.send("suffer")?;
            Err(abort("no such printer").into())
        }
    }
}

/// Never ends.
#[job(retries = 0, timeout = "100ms")]
pub(crate) async fn hang() -> Result<(), BoxError> {
    std::future::pending().await
}

/// A plain function that is too early once.
#[job]
pub(crate) fn count(early: State<AtomicBool>, done: State<Done>) -> Result<(), BoxError> {
    if early.swap(false, Ordering::Relaxed) {
        return Err(jobq::snooze(Duration::from_millis(230)).into());
    }
    Ok(done.send("count")?)
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
pub(crate) struct UserCreated {
    pub(crate) user: u32,
}

#[job(on = "user.*")]
pub(crate) async fn greet(_event: UserCreated, done: State<Done>) -> Result<(), BoxError> {
    Ok(done.send("greet")?)
}

#[job(on = "user.created")]
pub(crate) async fn audit(_event: UserCreated, done: State<Done>) -> Result<(), BoxError> {
    Ok(done.send("audit")?)
}

/// A client with traces, a pool on it, and what its jobs did.
pub(crate) struct Shop {
    pub(crate) client: Client,
    pub(crate) pool: RunningPool,
    done: mpsc::UnboundedReceiver<&'static str>,
}

impl Shop {
    pub(crate) async fn open(store: &Store, trace: Trace) -> Self {
        let propagation = OpenTelemetry::with_propagator(TraceContextPropagator::new());
        let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE);
        let client = builder.propagation(propagation).trace(trace).connect().await.unwrap();
        let (state, done) = mpsc::unbounded_channel();
        let pool = WorkerPool::new(&client)
            .state::<Done>(state)
            .state(AtomicBool::new(true))
            .register::<Pay>()
            .register::<Ship>()
            .register::<Suffer>()
            .register::<Hang>()
            .register::<Count>()
            .register::<Greet>()
            .register::<Audit>();
        Self { pool: pool.spawn().await.unwrap(), client, done }
    }

    /// Waits until as many jobs are done.
    pub(crate) async fn done(&mut self, count: usize) {
        for _ in 0..count {
            soon("a job to be done", self.done.recv()).await.unwrap();
        }
    }

    /// Ends the pool. All spans are exported then.
    pub(crate) async fn close(self) {
        self.pool.shutdown().await.unwrap();
        self.client.close().await;
    }
}
