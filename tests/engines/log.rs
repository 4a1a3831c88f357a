//! The log of a program.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use jobq::{
    Attempt, BoxError, Client, Event, FailedJob, FromAttempt, Next, Propagation, State, Trace,
    WorkerPool, abort, job,
};
use jobq_tests::both_engines;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{DEADLINE, Store, soon, until};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::sync::mpsc;
use tracing::Span;

both_engines!(
    a_healthy_program_logs_nothing_above_info,
    a_pool_at_info_writes_nothing_for_jobs_that_succeed,
    a_pool_tells_what_it_did,
    each_line_of_a_job_says_whose_it_is,
    an_error_is_logged_and_kept_with_all_its_sources,
    a_backtrace_is_logged_and_kept_where_an_error_has_one,
);

#[job(retries = 5, delay = "100ms", timeout = "1m")]
async fn check(
    until: u32,
    began: State<mpsc::UnboundedSender<u32>>,
    ctx: jobq::JobContext,
) -> Result<(), BoxError> {
    began.send(ctx.attempt())?;
    match ctx.attempt() {
        attempt if attempt < until => Err("not yet".into()),
        6 => Err(abort("never").into()),
        _ => Ok(()),
    }
}

async fn a_healthy_program_logs_nothing_above_info(store: Store) {
    let log = LogCapture::log();
    let client = store.client().await;
    assert!(client.counts("missing").await.unwrap().is_empty());
    client.enqueue(Check { until: 0 }).await.unwrap();
    client.enqueue(Check { until: 0 }).delay(Duration::from_millis(700)).await.unwrap();
    client.declare::<Check>().await.unwrap();
    let (began, mut attempts) = mpsc::unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(began).register::<Check>().spawn().await.unwrap();
    for _ in 0..2 {
        assert_eq!(soon("an attempt", attempts.recv()).await, Some(1));
    }
    pool.shutdown().await.unwrap();
    assert!(client.failed("missing").list(1).await.unwrap_err().is_not_found());
    client.close().await;
    let alarming = [log.lines(&[" ERROR "]), log.lines(&[" WARN "])].concat();
    assert!(alarming.is_empty(), "{}", alarming.join("\n"));
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {}

/// Is too early once.
#[job(on = "user.*")]
async fn greet(
    _event: UserCreated,
    early: State<AtomicBool>,
    began: State<mpsc::UnboundedSender<u32>>,
) -> Result<(), BoxError> {
    if early.swap(false, Ordering::Relaxed) {
        return Err(jobq::snooze(Duration::from_millis(50)).into());
    }
    Ok(began.send(0)?)
}

async fn a_pool_at_info_writes_nothing_for_jobs_that_succeed(store: Store) {
    let log = LogCapture::log();
    let client = store.client().await;
    let (began, mut attempts) = mpsc::unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(began).state(AtomicBool::new(true));
    let pool = pool.register::<Check>().register::<Greet>().spawn().await.unwrap();
    let before = log.text();
    client.enqueue(Check { until: 0 }).delay("170ms").await.unwrap();
    client.enqueue_all((0..20).map(|_| Check { until: 0 })).await.unwrap();
    client.publish_event(&UserCreated {}).await.unwrap();
    for _ in 0..22 {
        soon("an attempt", attempts.recv()).await.unwrap();
    }
    pool.shutdown().await.unwrap();
    let text = log.text();
    let [line] = text.strip_prefix(&before).unwrap().lines().collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert!(line.contains("pool stopped completed=22 retried=0 failed=0"), "{line}");
}

async fn a_pool_tells_what_it_did(store: Store) {
    let log = LogCapture::log();
    let client = store.client().await;
    let (began, mut attempts) = mpsc::unbounded_channel::<u32>();
    let pool = WorkerPool::new(&client).state(began).concurrency(7).register::<Check>();
    let running = pool.spawn().await.unwrap();
    let [started] = &log.lines(&["pool started"])[..] else { panic!("{}", log.text()) };
    let engine = if store.url.starts_with("amqp") { "RabbitMQ" } else { "SQLite" };
    for part in [" INFO ", engine, "check=7"] {
        assert!(started.contains(part), "{part}: {started}");
    }
    let version = started.split(engine).nth(1).unwrap().trim_start();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{started}");

    for (until_attempt, last) in [(1, 1), (3, 3), (6, 6)] {
        client.enqueue(Check { until: until_attempt }).await.unwrap();
        for attempt in 1..=last {
            assert_eq!(soon("an attempt", attempts.recv()).await, Some(attempt));
        }
    }
    until("the last to have failed", async || {
        (client.counts("check").await.ok()?.failed == 1).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
    assert_eq!(log.lines(&[" WARN ", "attempt=2 of=6"]).len(), 2, "{}", log.text());
    assert_eq!(log.lines(&[" ERROR ", "attempt=6 of=6", "aborted"]).len(), 1, "{}", log.text());
    let ended = "pool stopped completed=2 retried=7 failed=1";
    assert_eq!(log.lines(&[" INFO ", ended]).len(), 1, "{}", log.text());
}

/// A payload, an argument and a layer that write to the log.
#[derive(Serialize)]
struct Chatty;

impl<'de> Deserialize<'de> for Chatty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tracing::info!("the payload");
        <()>::deserialize(deserializer).map(|()| Self)
    }
}

struct Argument;

impl FromAttempt for Argument {
    type Error = BoxError;

    fn from_attempt(_: &Attempt) -> Result<Self, BoxError> {
        tracing::info!("the argument");
        Ok(Self)
    }
}

#[job(name = "talks", queue = "talk", retries = 1, delay = "50ms")]
async fn talk(_with: Chatty, #[context] _argument: Argument) -> Result<(), BoxError> {
    tracing::info!("the function");
    Err("too much".into())
}

/// The same on a thread of its own.
#[job(name = "shouts", queue = "shout", retries = 1, delay = "50ms")]
fn shout(_with: Chatty, #[context] _argument: Argument) -> Result<(), BoxError> {
    tracing::info!("the function");
    Err("too loud".into())
}

/// Has the spans of traces, and passes nothing on.
struct Nothing;

impl Propagation for Nothing {
    fn inject(&self, _: &Span, _: &mut dyn FnMut(&str, &str)) {}

    fn extract(&self, _: &Span, _: &dyn Fn(&str) -> Option<String>, _: Trace) {}
}

async fn each_line_of_a_job_says_whose_it_is(store: Store) {
    let log = LogCapture::log();
    for traced in [false, true] {
        let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE);
        let builder = if traced { builder.propagation(Nothing) } else { builder };
        let client = builder.connect().await.unwrap();
        let pool = WorkerPool::new(&client).register::<Talk>().register::<Shout>().around(
            |_: Attempt, next: Next| async move {
                tracing::info!("the layer");
                next.run().await
            },
        );
        let running = pool.spawn().await.unwrap();
        let talk = client.enqueue(Talk { _with: Chatty }).await.unwrap();
        let shout = client.enqueue(Shout { _with: Chatty }).await.unwrap();
        for (id, job, queue) in [(talk, "talks", "talk"), (shout, "shouts", "shout")] {
            failed(&client, queue).await;
            for attempt in 1..=2 {
                let who = format!("job={job} id={id} queue={queue} attempt={attempt}");
                for line in ["the payload", "the argument", "the function", "the layer"] {
                    let span = format!("attempt{{{who}");
                    let lines = log.lines(&[line, &span]);
                    assert_eq!(lines.len(), 1, "{line} {who}: {}", log.text());
                }
            }
            let told = |level, text, attempt: &str| {
                let who = format!("job={job} id={id} queue={queue} {attempt}");
                assert_eq!(log.lines(&[level, text, &who]).len(), 1, "{}", log.text());
            };
            told(" WARN ", "attempt failed; retrying", "attempt=1 of=2 ");
            told(" ERROR ", "job failed for good", "attempt=2 of=2 ");
            client.failed(queue).purge().await.unwrap();
        }
        running.shutdown().await.unwrap();
        client.close().await;
    }
}

async fn failed(client: &Client, queue: &str) -> FailedJob {
    let failed = client.failed(queue);
    until("a failed job", async || failed.list(1).await.ok()?.pop()).await
}

#[job(retries = 0)]
async fn sink(long: bool) -> anyhow::Result<()> {
    let deep = Err(std::io::Error::other("the disk is full"));
    let wide = if long { "ß".repeat(9_000) } else { "the printer stops".to_owned() };
    deep.context("writing page 7").context(wide).context("printing the letter")
}

async fn an_error_is_logged_and_kept_with_all_its_sources(store: Store) {
    let log = LogCapture::log();
    let client = store.client().await;
    let running = WorkerPool::new(&client).register::<Sink>().spawn().await.unwrap();
    let short = "printing the letter: the printer stops: writing page 7: the disk is full";
    let whole = format!("printing the letter: {}", "ß".repeat(9_000));
    // The text before the long part has an odd number of bytes.
    for (is_long, expected) in [(false, short), (true, &whole[..8 * 1024 - 1])] {
        client.enqueue(Sink { long: is_long }).await.unwrap();
        let job = failed(&client, "sink").await;
        assert_eq!((job.error().len(), job.error()), (expected.len(), expected));
        let logged = log.lines(&[" ERROR ", "job failed for good", "job=sink "]).pop().unwrap();
        assert!(logged.contains(&format!("error=\"{expected}\"")), "{logged}");
        client.failed("sink").purge().await.unwrap();
    }
    running.shutdown().await.unwrap();
}

async fn a_backtrace_is_logged_and_kept_where_an_error_has_one(store: Store) {
    // The standard library asks the environment once.
    if std::env::var("RUST_BACKTRACE").as_deref() != Ok("1") {
        let test = std::thread::current().name().unwrap().to_owned();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", &test]).env("RUST_BACKTRACE", "1").env_remove("RUST_LIB_BACKTRACE");
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let log = LogCapture::log();
    let client = store.client().await;
    let running = WorkerPool::new(&client).register::<Sink>().spawn().await.unwrap();
    client.enqueue(Sink { long: false }).await.unwrap();
    let job = failed(&client, "sink").await;
    assert!(job.error().ends_with(": the disk is full"), "{}", job.error());
    let kept = job.backtrace().unwrap();
    assert!(kept.contains("engines::log::sink"), "{kept}");
    assert!(job.error().len() + kept.len() <= 8 * 1024);
    let [line] = &log.lines(&[" ERROR ", "job=sink "])[..] else { panic!("{}", log.text()) };
    let (error, backtrace) = line.split_once(" backtrace=").unwrap();
    assert!(error.ends_with(": the disk is full\""), "{error}");
    assert!(backtrace.contains("engines::log::sink"), "{backtrace}");
    running.shutdown().await.unwrap();
}
