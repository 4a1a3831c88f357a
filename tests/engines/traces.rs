//! The context of a trace, on its way with a job: as any propagation sees it.

use std::time::Duration;

use jobq::{BoxError, Client, JobContext, Propagation, State, Trace, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{DEADLINE, Store, soon, until};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Span;

both_engines!(
    a_context_stays_through_retries_levels_and_that_of_a_failed_job,
    a_context_is_read_in_the_program_before_the_span_is_entered,
    a_propagation_that_panics_loses_no_job,
    a_header_that_cannot_be_is_left_out_and_told_once,
);

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const STATE: &str = "shop=1,rojo=00f067aa0ba902b7";

/// Does this for each context.
struct Passing<I, E>(I, E);

impl<I, E> Propagation for Passing<I, E>
where
    I: Fn(&mut dyn FnMut(&str, &str)) + Send + Sync + 'static,
    E: Fn(&Span, &dyn Fn(&str) -> Option<String>, Trace) + Send + Sync + 'static,
{
    fn inject(&self, _: &Span, set: &mut dyn FnMut(&str, &str)) {
        self.0(set);
    }

    fn extract(&self, span: &Span, get: &dyn Fn(&str) -> Option<String>, mode: Trace) {
        self.1(span, get, mode);
    }
}

fn w3c(set: &mut dyn FnMut(&str, &str)) {
    set("traceparent", PARENT);
    set("tracestate", STATE);
}

async fn client(store: &Store, propagation: impl Propagation) -> Client {
    let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE);
    builder.propagation(propagation).trace(Trace::Child).connect().await.unwrap()
}

type Told = UnboundedSender<String>;

async fn next(told: &mut UnboundedReceiver<String>) -> String {
    soon("the next attempt", told.recv()).await.unwrap()
}

/// Takes each way of being delivered again, and fails.
#[job(retries = 2, delay = "100ms")]
async fn wander(ctx: JobContext, told: State<Told>) -> Result<(), BoxError> {
    let context = |name| ctx.header(name).unwrap_or("none");
    told.send(format!("{} {} {}", ctx.attempt(), context("traceparent"), context("tracestate")))?;
    match ctx.attempt() {
        1 => Err("no".into()),
        2 => Err(jobq::retry_in(Duration::from_millis(170), "busy").into()),
        _ => Err("never".into()),
    }
}

async fn a_context_stays_through_retries_levels_and_that_of_a_failed_job(store: Store) {
    let (extracted, mut contexts) = unbounded_channel();
    let note = move |_: &Span, get: &dyn Fn(&str) -> Option<String>, mode| {
        let _ = extracted.send((get("traceparent"), get("tracestate"), get("other"), mode));
    };
    let client = client(&store, Passing(w3c, note)).await;
    let (told, mut attempts) = unbounded_channel();
    let pool = WorkerPool::new(&client).state::<Told>(told).register::<Wander>();
    let running = pool.spawn().await.unwrap();
    let id = client.enqueue(Wander {}).delay("170ms").await.unwrap();
    for _ in 0..2 {
        for attempt in 1..=3 {
            assert_eq!(next(&mut attempts).await, format!("{attempt} {PARENT} {STATE}"));
            let context = contexts.recv().await.unwrap();
            assert_eq!(context, (Some(PARENT.into()), Some(STATE.into()), None, Trace::Child));
        }
        let failed = client.failed("wander");
        let job = until("a failed job", async || failed.list(1).await.ok()?.pop()).await;
        assert_eq!(
            (job.header("traceparent"), job.header("tracestate")),
            (Some(PARENT), Some(STATE))
        );
        failed.retry(id).await.unwrap();
    }
    running.shutdown().await.unwrap();
}

async fn a_context_is_read_in_the_program_before_the_span_is_entered(store: Store) {
    // Without a subscriber no span is there.
    let _ = LogCapture::log();
    let (extracted, mut spans) = unbounded_channel();
    let look = move |span: &Span, _: &dyn Fn(&str) -> Option<String>, _| {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = extracted.send((span.id(), Span::current().id(), name));
    };
    let client = client(&store, Passing(w3c, look)).await;
    let (told, mut attempts) = unbounded_channel();
    let pool = WorkerPool::new(&client).state::<Told>(told).register::<Greet>();
    let running = pool.spawn().await.unwrap();
    client.enqueue(Greet {}).await.unwrap();
    let entered = next(&mut attempts).await;
    let (span, current, thread) = spans.recv().await.unwrap();
    assert_eq!((format!("{span:?}"), current), (entered, None));
    assert!(!thread.starts_with("jobq"), "a thread of jobq's: {thread}");
    running.shutdown().await.unwrap();
}

#[job]
async fn greet(told: State<Told>) -> Result<(), BoxError> {
    Ok(told.send(format!("{:?}", Span::current().id()))?)
}

async fn a_propagation_that_panics_loses_no_job(store: Store) {
    let panics = |set: &mut dyn FnMut(&str, &str)| {
        set("traceparent", PARENT);
        panic!("no context");
    };
    let client =
        client(&store, Passing(panics, |_: &Span, _: &dyn Fn(&str) -> _, _| panic!())).await;
    let (told, mut attempts) = unbounded_channel();
    let pool = WorkerPool::new(&client).state::<Told>(told).register::<Wander>();
    let running = pool.spawn().await.unwrap();
    client.enqueue(Wander {}).await.unwrap();
    client.enqueue_all([Wander {}]).await.unwrap();
    for attempt in [1, 1, 2, 2, 3, 3] {
        assert_eq!(next(&mut attempts).await, format!("{attempt} none none"));
    }
    running.shutdown().await.unwrap();
}

async fn a_header_that_cannot_be_is_left_out_and_told_once(store: Store) {
    let log = LogCapture::log();
    let zipkin = |set: &mut dyn FnMut(&str, &str)| {
        set("x-b3-traceid", "1");
        set("traceparent", PARENT);
    };
    let client = client(&store, Passing(zipkin, |_: &Span, _: &dyn Fn(&str) -> _, _| {})).await;
    let (told, mut attempts) = unbounded_channel();
    let pool = WorkerPool::new(&client).state::<Told>(told).register::<Wander>();
    let running = pool.spawn().await.unwrap();
    client.enqueue_all([Wander {}, Wander {}]).await.unwrap();
    for attempt in [1, 1, 2, 2, 3, 3] {
        assert_eq!(next(&mut attempts).await, format!("{attempt} {PARENT} none"));
    }
    running.shutdown().await.unwrap();
    assert_eq!(log.lines(&[" WARN ", "trace header left out", "x-b3-traceid"]).len(), 1);
}
