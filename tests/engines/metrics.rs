//! Every figure of the metrics is what happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use jobq::engine::Settlement;
use jobq::engine::conformance::{DEADLINE, EngineExt as _};
use jobq::{BoxError, Client, ErrorKind, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::broker;
use jobq_tests::proxy::{Cut, Proxy};
use jobq_tests::raw::Raw;
use jobq_tests::scraped::Scraped;
use jobq_tests::test_store::{Hasty, Scripted, Step, Store, TestStore, soon, until};
use lapin::BasicProperties;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

both_engines!(each_figure_is_what_happened, levels_rise_and_fall);

/// Has this process record. Each test is a process of its own.
fn record() -> PrometheusHandle {
    let builder = PrometheusBuilder::new().set_buckets(&[0.1, 60.0]).unwrap();
    builder.install_recorder().expect("there is no other: `cargo nextest run`, or one test alone")
}

fn scrape(handle: &PrometheusHandle) -> Scraped {
    Scraped::read(&handle.render())
}

/// How often a job of an unknown type was put off. It is put off again after some time.
const PUT_OFF: &str = "jobq_attempts_total{queue=scripted,job=unknown,outcome=retried}";

/// Waits until all that is not 0 is this, in any order, beside [`PUT_OFF`].
async fn figures(handle: &PrometheusHandle, mut expected: Vec<String>) {
    expected.sort_unstable();
    let figures = || {
        let mut figures = scrape(handle).figures();
        figures.retain(|figure| !figure.starts_with(PUT_OFF));
        figures
    };
    let equal = async {
        while figures() != expected || scrape(handle).count(PUT_OFF) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, equal).await.is_err() {
        assert_eq!(figures(), expected);
        panic!("not in time: {PUT_OFF}");
    }
}

/// The figures of a text with one in each line.
fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// Jobs of the queue `scripted` of other programs: one has another payload, one another name.
mod foreign {
    use super::{BoxError, job};

    #[job(name = "scripted", queue = "scripted")]
    pub(super) async fn misread(steps: u32) -> Result<(), BoxError> {
        Err(format!("{steps}").into())
    }

    #[job(queue = "scripted")]
    pub(super) async fn stranger() -> Result<(), BoxError> {
        Ok(())
    }
}

async fn each_figure_is_what_happened(store: Store) {
    let handle = record();
    let mut test = TestStore::on(store).await;

    test.enqueue([Step::Succeed]).await;
    isolate(&test).await;
    // Alone, since a pool hands back whatever else it has, which then counts as delivered before.
    let running = test.pool().spawn().await.unwrap();
    test.end().await;
    running.shutdown().await.unwrap();

    let client = &test.client;
    test.enqueue([Step::Succeed]).await;
    test.enqueue([Step::Fail("no".into()), Step::Succeed]).await;
    test.enqueue([Step::Abort("no use".into())]).await;
    test.enqueue([Step::Snooze(50), Step::Succeed]).await;
    test.enqueue([Step::Panic("oh".into())]).await;
    client.enqueue(Hasty { steps: vec![Step::Hang] }).await.unwrap();
    client.enqueue(foreign::Misread { steps: 7 }).await.unwrap();
    client.enqueue(foreign::Stranger {}).await.unwrap();
    let succeeding = || Scripted { steps: vec![Step::Succeed] };
    client.enqueue(succeeding()).expires_in("1ms").await.unwrap();
    let expired = SystemTime::now() + Duration::from_millis(2);
    until("it to be expired", async || (SystemTime::now() > expired).then_some(())).await;
    client.enqueue_all((0..3).map(|_| succeeding())).await.unwrap();
    // Its file is locked, so that no answer comes before it is given up.
    let file = test.store.url.strip_prefix("sqlite://").map(|path| {
        let file = rusqlite::Connection::open(path).unwrap();
        file.execute_batch("BEGIN IMMEDIATE").unwrap();
        file
    });
    let given_up = client.enqueue(succeeding()).into_future().now_or_never();
    assert!(given_up.is_none(), "it takes its time");
    drop(file);
    assert!(client.enqueue(succeeding()).header("x-reserved", "1").await.is_err());
    let many = client.enqueue_all((0..2).map(|_| succeeding()));
    assert_eq!(many.header("x-reserved", "1").await.unwrap_err().refused().len(), 2);
    client.publish("nobody.cares", &1).await.unwrap();
    let error = client.publish("nobody.cares", &1).mandatory().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);

    let running = test.pool().spawn().await.unwrap();
    let counters: Vec<_> = lines(
        "jobq_enqueued_total{queue=scripted,job=scripted,result=accepted} 11
        jobq_enqueued_total{queue=scripted,job=scripted,result=refused} 3
        jobq_enqueued_total{queue=scripted,job=scripted,result=unknown} 1
        jobq_enqueued_total{queue=scripted,job=stranger,result=accepted} 1
        jobq_enqueued_total{queue=hasty,job=hasty,result=accepted} 1
        jobq_enqueue_duration_seconds_count{queue=scripted} 10
        jobq_enqueue_duration_seconds_count{queue=hasty} 1
        jobq_published_total{result=accepted} 1
        jobq_published_total{result=refused} 1
        jobq_publish_duration_seconds_count 2
        jobq_attempts_total{queue=scripted,job=scripted,outcome=completed} 8
        jobq_attempts_total{queue=scripted,job=scripted,outcome=retried} 4
        jobq_attempts_total{queue=scripted,job=scripted,outcome=failed} 4
        jobq_attempts_total{queue=scripted,job=scripted,outcome=snoozed} 1
        jobq_attempts_total{queue=hasty,job=hasty,outcome=retried} 1
        jobq_attempts_total{queue=hasty,job=hasty,outcome=failed} 1
        jobq_attempt_duration_seconds_count{queue=scripted,job=scripted,outcome=completed} 8
        jobq_attempt_duration_seconds_count{queue=scripted,job=scripted,outcome=retried} 4
        jobq_attempt_duration_seconds_count{queue=scripted,job=scripted,outcome=failed} 3
        jobq_attempt_duration_seconds_count{queue=scripted,job=scripted,outcome=snoozed} 1
        jobq_attempt_duration_seconds_count{queue=hasty,job=hasty,outcome=retried} 1
        jobq_attempt_duration_seconds_count{queue=hasty,job=hasty,outcome=failed} 1
        jobq_failed_total{queue=scripted,job=scripted,reason=exhausted} 1
        jobq_failed_total{queue=scripted,job=scripted,reason=aborted} 1
        jobq_failed_total{queue=scripted,job=scripted,reason=expired} 1
        jobq_failed_total{queue=scripted,job=scripted,reason=unreadable-payload} 1
        jobq_failed_total{queue=hasty,job=hasty,reason=exhausted} 1",
    )
    // RabbitMQ does not tell since when a retry is due.
    .chain(lines(if test.store.is_file() {
        "jobq_wait_seconds_count{queue=scripted} 16
        jobq_wait_seconds_count{queue=hasty} 2"
    } else {
        "jobq_wait_seconds_count{queue=scripted} 10
        jobq_wait_seconds_count{queue=hasty} 1"
    }))
    .collect();
    let levels = lines(
        "jobq_slots{queue=scripted} 10
        jobq_slots{queue=hasty} 10
        jobq_consuming{queue=scripted} 1
        jobq_consuming{queue=hasty} 1",
    );
    figures(&handle, counters.iter().cloned().chain(levels).collect()).await;
    running.shutdown().await.unwrap();
    figures(&handle, counters).await;

    let scraped = scrape(&handle);
    let took = |outcome| {
        let labels = format!("{{queue=hasty,job=hasty,outcome={outcome}}}");
        scraped.seconds(&format!("jobq_attempt_duration_seconds_sum{labels}"))
    };
    assert!(took("retried") >= 0.1 && took("failed") >= 0.1, "its timeout: {scraped:?}");
    let wait = scraped.seconds("jobq_wait_seconds_sum{queue=hasty}");
    assert!(wait > 0.0 && wait < DEADLINE.as_secs_f64(), "{wait}");
}

/// Has the first job of the queue run alone.
async fn isolate(test: &TestStore) {
    let engine =
        jobq::engine::conformance::open(&test.store.url, &test.store.namespace).await.unwrap();
    engine.declare(&[jobq::engine::QueueSpec::new("scripted").solo()]).await.unwrap();
    let mut consumer = engine.consume_from("scripted", 1).await.unwrap();
    let delivery = soon("the job", consumer.next()).await.unwrap().unwrap();
    delivery.settle(Settlement::Isolate).await.unwrap();
    consumer.stop().await;
    engine.close().await;
}

/// Loops until the test says otherwise, and never awaits anything.
#[job(retries = 0, timeout = "100ms", concurrency = 1)]
async fn endless(end: State<Arc<AtomicBool>>) -> Result<(), BoxError> {
    while !end.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

async fn levels_rise_and_fall(store: Store) {
    let handle = record();
    let mut test = TestStore::on(store).await;
    let level = async |series: &str, value: u64| {
        until(series, async || (scrape(&handle).count(series) == value).then_some(())).await;
    };
    let end = Arc::new(AtomicBool::new(false));
    let pool = || {
        let pool = test.pool().state(Arc::clone(&end)).register::<Endless>();
        pool.shutdown_timeout(Duration::ZERO)
    };
    let running = pool().spawn().await.unwrap();
    let other = pool().spawn().await.unwrap();
    level("jobq_slots{queue=scripted}", 20).await;
    level("jobq_consuming{queue=scripted}", 2).await;
    other.shutdown().await.unwrap();
    assert_eq!(scrape(&handle).count("jobq_slots{queue=scripted}"), 10);
    assert_eq!(scrape(&handle).count("jobq_consuming{queue=scripted}"), 1);

    test.enqueue([Step::Wait]).await;
    test.run().await;
    level("jobq_running{queue=scripted}", 1).await;
    test.go();
    level("jobq_running{queue=scripted}", 0).await;
    test.client.enqueue(Endless {}).await.unwrap();
    level("jobq_lost_slots{queue=endless}", 1).await;
    assert_eq!(scrape(&handle).count("jobq_running{queue=endless}"), 0, "its attempt is over");
    end.store(true, Ordering::Relaxed);
    level("jobq_lost_slots{queue=endless}", 0).await;

    // One that is cut short.
    test.enqueue([Step::Hang]).await;
    test.run().await;
    running.shutdown().await.unwrap();
    let released = "jobq_attempts_total{queue=scripted,job=scripted,outcome=released}";
    assert_eq!(scrape(&handle).count(released), 1);
    for name in ["running", "slots", "lost_slots", "consuming"] {
        for queue in ["scripted", "hasty", "endless"] {
            let series = format!("jobq_{name}{{queue={queue}}}");
            assert_eq!(scrape(&handle).count(&series), 0, "{series}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_and_what_they_lose_are_counted() {
    let handle = record();
    let value = |series: &str| scrape(&handle).count(series);
    let broker = broker::shared().await;
    let proxy = Proxy::to(&broker).await;
    let mut test = TestStore::on(Store::on_broker(proxy.url())).await;
    let running = test.pool().spawn().await.unwrap();
    let job = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, job);
    let consuming = async |pools: u64| {
        let series = "jobq_consuming{queue=scripted}";
        until(series, async || (value(series) == pools).then_some(())).await;
    };
    consuming(1).await;
    assert_eq!((value("jobq_reconnects_total"), value("jobq_unrecorded_total")), (0, 0));

    proxy.refuse(true);
    proxy.cut(Cut::End).await;
    consuming(0).await;
    test.go();
    until("the lost outcome", async || (value("jobq_unrecorded_total") == 1).then_some(())).await;
    proxy.refuse(false);
    consuming(1).await;
    until("an empty queue", async || {
        let counts = test.client.counts("scripted").await.ok()?;
        counts.is_empty().then_some(())
    })
    .await;
    until("both connections", async || (value("jobq_reconnects_total") == 2).then_some(())).await;

    let raw = Raw::connect(&broker).await;
    raw.publish(&test.store.namespace, "nowhere", BasicProperties::default(), b"{}").await;
    let unroutable = "jobq_failed_total{queue=unknown,job=unknown,reason=unroutable}";
    until(unroutable, async || (value(unroutable) == 1).then_some(())).await;
    running.shutdown().await.unwrap();
    let completed = "jobq_attempts_total{queue=scripted,job=scripted,outcome=completed}";
    assert_eq!(value(completed), 1, "the redelivery is settled by the outcome of the run");
    assert_eq!(value("jobq_unrecorded_total"), 1);
}

/// Jobs of eleven queues.
mod eleven {
    use super::{BoxError, job};

    macro_rules! jobs {
        ($($name:ident)*) => {
            $(
                #[job]
                pub(super) async fn $name() -> Result<(), BoxError> {
                    Ok(())
                }
            )*
        };
    }

    jobs!(q1 q2 q3 q4 q5 q6 q7 q8 q9 q10 q11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_histogram_begins_with_its_first_value() {
    use eleven::{Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8, Q9, Q10, Q11};

    let handle = record();
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let pool = WorkerPool::new(&client).register::<Q1>().register::<Q2>().register::<Q3>();
    let pool = pool.register::<Q4>().register::<Q5>().register::<Q6>().register::<Q7>();
    let pool = pool.register::<Q8>().register::<Q9>().register::<Q10>().register::<Q11>();
    let running = pool.spawn().await.unwrap();
    let histograms = || -> Vec<String> {
        let text = handle.render();
        let counts = text.lines().filter(|line| line.contains("_seconds_count"));
        counts.map(|line| line.replace('"', "")).collect()
    };
    assert_eq!(histograms(), Vec::<String>::new());
    let text = handle.render();
    for zero in [
        r#"jobq_attempts_total{queue="q11",job="q11",outcome="failed"} 0"#,
        r#"jobq_failed_total{queue="q11",job="unknown",reason="unknown-job"} 0"#,
        r#"jobq_published_total{result="accepted"} 0"#,
    ] {
        assert!(text.contains(zero), "no {zero} in\n{text}");
    }

    client.enqueue(Q7 {}).await.unwrap();
    let begun = [
        "jobq_attempt_duration_seconds_count{queue=q7,job=q7,outcome=completed} 1",
        "jobq_enqueue_duration_seconds_count{queue=q7} 1",
        "jobq_wait_seconds_count{queue=q7} 1",
    ];
    until("the first values", async || (histograms().len() == begun.len()).then_some(())).await;
    let mut found = histograms();
    found.sort_unstable();
    assert_eq!(found, begun);
    running.shutdown().await.unwrap();
}
