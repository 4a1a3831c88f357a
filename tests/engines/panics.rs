//! Job functions and values of the user's that panic where nobody expects it: each is a failed
//! attempt, and the pool goes on.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use jobq::{BoxError, Client, FailedReason, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};

both_engines!(
    every_panic_is_a_failed_attempt,
    a_state_that_panics_as_it_is_dropped_ends_with_its_pool
);

/// Panics when it is dropped, though not while something panics, which would abort.
#[derive(Debug)]
struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::panic_any(Loud2);
        }
    }
}

/// And what it panics with does, too.
struct Loud2;

impl Drop for Loud2 {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

/// An error of which everything panics.
#[derive(Debug)]
struct Error(Where);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Where {
    Value,
    ValueInBody,
    FutureWhenReady,
    Display,
    Source,
    ErrorDrop,
    OkDrop,
    Nowhere,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0 != Where::Display, "displayed");
        f.write_str("it failed")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        assert!(self.0 != Where::Source, "asked for its source");
        None
    }
}

impl Drop for Error {
    fn drop(&mut self) {
        if self.0 == Where::ErrorDrop {
            std::panic::panic_any(Loud2);
        }
    }
}

/// A future that panics when it is dropped after it was ready.
struct Ready(bool);

impl Future for Ready {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.0 = true;
        Poll::Ready(())
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if self.0 {
            std::panic::panic_any(Loud);
        }
    }
}

fn act(place: Where) -> Result<Option<Loud>, Error> {
    match place {
        Where::Value => std::panic::panic_any(Loud),
        Where::ValueInBody => {
            let _dropped = Loud;
            Ok(None)
        }
        Where::Display | Where::Source | Where::ErrorDrop => Err(Error(place)),
        Where::OkDrop => Ok(Some(Loud)),
        Where::FutureWhenReady | Where::Nowhere => Ok(None),
    }
}

#[job(retries = 0)]
async fn awaiting(place: Where, done: State<Done>) -> Result<Option<Loud>, Error> {
    if place == Where::FutureWhenReady {
        let mut ready = Ready(false);
        poll_fn(|cx| Pin::new(&mut ready).poll(cx)).await;
    }
    let result = act(place);
    done.0.fetch_add(1, Ordering::SeqCst);
    result
}

#[job(retries = 0)]
fn blocking(place: Where, done: State<Done>) -> Result<Option<Loud>, Error> {
    let result = act(place);
    done.0.fetch_add(1, Ordering::SeqCst);
    result
}

#[derive(Default)]
struct Done(AtomicU32);

async fn failed(client: &Client, queue: &str) -> jobq::FailedJob {
    let failed = client.failed(queue);
    let job = until("a failed job", async || failed.list(1).await.ok()?.pop()).await;
    failed.discard(job.id()).await.expect("it is there");
    job
}

async fn every_panic_is_a_failed_attempt(store: Store) {
    use Where::{Display, ErrorDrop, FutureWhenReady, OkDrop, Source, Value, ValueInBody};
    let client = store.client().await;
    let pool = WorkerPool::new(&client).state(Done::default()).concurrency(1);
    let pool = pool.register::<Awaiting>().register::<Blocking>().spawn().await.unwrap();
    let places = [Value, ValueInBody, FutureWhenReady, Display, Source, ErrorDrop, OkDrop];
    for place in places {
        let id = client.enqueue(Awaiting { place }).await.unwrap();
        let job = failed(&client, "awaiting").await;
        assert_eq!((job.id(), job.reason(), job.attempts()), (id, FailedReason::Exhausted, 1));
        // One good job beside each.
        client.enqueue(Awaiting { place: Where::Nowhere }).await.unwrap();
        if place == FutureWhenReady {
            continue;
        }
        let id = client.enqueue(Blocking { place }).await.unwrap();
        let job = failed(&client, "blocking").await;
        assert_eq!((job.id(), job.reason(), job.attempts()), (id, FailedReason::Exhausted, 1));
        client.enqueue(Blocking { place: Where::Nowhere }).await.unwrap();
    }
    for queue in ["awaiting", "blocking"] {
        until("all good jobs", async || client.counts(queue).await.ok()?.is_empty().then_some(()))
            .await;
    }
    soon("the end of the pool", pool.shutdown()).await.unwrap();
}

struct LoudState;

impl Drop for LoudState {
    fn drop(&mut self) {
        std::panic::panic_any(Loud);
    }
}

#[job(retries = 0)]
async fn stateful(state: State<LoudState>) -> Result<(), BoxError> {
    drop(state);
    Ok(())
}

async fn a_state_that_panics_as_it_is_dropped_ends_with_its_pool(store: Store) {
    let client = store.client().await;
    let pool = WorkerPool::new(&client).state(LoudState).register::<Stateful>();
    let pool = pool.spawn().await.unwrap();
    client.enqueue(Stateful {}).await.unwrap();
    until("the job", async || client.counts("stateful").await.ok()?.is_empty().then_some(())).await;
    soon("the end of the pool", pool.shutdown()).await.unwrap();
}
