//! Messages that are larger than the broker takes.

use jobq::engine::conformance::EngineExt as _;
use std::collections::HashSet;
use std::sync::Arc;

use jobq::engine::conformance::soon;
use jobq::engine::{Engine, QueueSpec, Settlement};
use jobq::{BoxError, Client, ErrorKind, JobId, WorkerPool, job};
use jobq_tests::broker::{Broker, namespace};
use jobq_tests::jobs;
use jobq_tests::test_store::{DEADLINE, until};
use tokio::sync::mpsc;

const LIMIT: usize = 100_000;

#[job(queue = "letters")]
async fn letter(
    text: String,
    ctx: jobq::JobContext,
    ran: jobq::State<Ran>,
) -> Result<(), BoxError> {
    let _ = (text, ran.0.send(ctx.id()));
    Ok(())
}

struct Ran(mpsc::UnboundedSender<JobId>);

async fn client(broker: &Broker) -> Client {
    let builder = Client::builder(broker.url()).namespace(namespace());
    builder.timeout(DEADLINE).connect().await.expect("it connects")
}

fn is_offender(error: &jobq::Error) -> bool {
    let said = error.to_string();
    let named = said.contains("max_message_size") && said.contains(&LIMIT.to_string());
    error.is_refused() && !error.maybe_enqueued() && named
}

/// Runs all that is there, and checks that it is just these jobs.
async fn only_these_run(client: &Client, expected: HashSet<JobId>) {
    let (sender, mut runs) = mpsc::unbounded_channel();
    let pool = WorkerPool::new(client).state(Ran(sender)).register::<Letter>();
    let pool = pool.spawn().await.expect("it starts");
    let mut ran = HashSet::new();
    while ran.len() < expected.len() {
        let id = soon("the next job", runs.recv()).await.expect("the pool keeps a sender");
        assert!(ran.insert(id), "twice");
    }
    assert_eq!(ran, expected);
    pool.shutdown().await.expect("it ends");
    assert!(runs.try_recv().is_err(), "one job more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_large_is_refused_and_disturbs_no_other() {
    let name = "a_message_that_is_too_large_is_refused_and_disturbs_no_other";
    let lines = format!("max_message_size = {LIMIT}\n");
    let broker = Broker::with_files(name, move |_| vec![("rabbitmq.conf", lines)]).await;
    let Some(broker) = broker else {
        return;
    };
    let client = client(&broker).await;
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut stored = HashSet::new();
                for number in 0..100 {
                    let is_large = number % 20 == caller;
                    let text = "x".repeat(if is_large { 2 * LIMIT } else { 400 });
                    match client.enqueue(Letter { text }).await {
                        Ok(id) if !is_large => stored.insert(id),
                        Err(error) if is_large && is_offender(&error) => false,
                        other => panic!("{number}: {other:?}"),
                    };
                }
                stored
            })
        })
        .collect();
    let mut stored = HashSet::new();
    for caller in callers {
        stored.extend(caller.await.expect("it does not panic"));
    }
    // As many bytes as the broker takes, two of them for the quotes and the braces.
    let whole = LIMIT - r#"{"text":""}"#.len();
    stored.insert(client.enqueue(Letter { text: "x".repeat(whole) }).await.expect("it fits"));
    let error = client.enqueue(Letter { text: "x".repeat(whole + 1) }).await.unwrap_err();
    assert!(is_offender(&error), "{error}");
    only_these_run(&client, stored).await;
    of_many_only_those_that_are_too_large_are_refused(&broker).await;
}

async fn of_many_only_those_that_are_too_large_are_refused(broker: &Broker) {
    let client = client(broker).await;
    let is_large = |number: usize| number % 500 == 250;
    let letters = (0..2_000).map(|number| {
        let text = "x".repeat(if is_large(number) { 2 * LIMIT } else { 400 });
        Letter { text }
    });
    let report = client.enqueue_all(letters).await.unwrap_err();
    assert!(report.unknown().is_empty(), "{report}");
    for (place, error) in report.refused() {
        assert!(is_large(*place) && is_offender(error), "{place}: {error}");
    }
    let stored: HashSet<_> = report.accepted().iter().map(|(_, id)| *id).collect();
    assert_eq!(stored.len(), 1_996);
    only_these_run(&client, stored).await;
}

/// Below 128 KiB nothing is tried alone: then those before the offender on the channel may be
/// stored, and those after it are sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_nobody_expects_leaves_only_honest_doubts() {
    let name = "a_limit_that_nobody_expects_leaves_only_honest_doubts";
    let lines = "max_message_size = 10000\n".to_owned();
    let broker = Broker::with_files(name, move |_| vec![("rabbitmq.conf", lines)]).await;
    let Some(broker) = broker else {
        return;
    };
    let client = client(&broker).await;
    let letters = (0..3_000).map(|number| {
        let text = "x".repeat(if number == 1_000 { 20_000 } else { 400 });
        Letter { text }
    });
    let report = client.enqueue_all(letters).await.unwrap_err();
    let [(1_000, error)] = report.refused() else {
        panic!("{report}");
    };
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    // Not one after it.
    assert!(report.unknown().iter().all(|(place, _)| *place < 1_000), "{report}");
    let error = client.enqueue(Letter { text: "x".repeat(20_000) }).await.unwrap_err();
    assert!(error.is_refused() && !error.maybe_enqueued(), "{error}");
    let count = async || {
        client.counts("letters").await.ok().and_then(|counts| counts.ready.known().copied())
    };
    let stored = report.accepted().len() as u64;
    assert!(stored >= 1_999, "{stored}");
    let ready = until("the jobs", async || count().await.filter(|ready| *ready >= stored)).await;
    assert!(ready <= 2_999, "{ready}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_became_too_large_stays_until_the_broker_takes_it() {
    let test = "a_job_that_became_too_large_stays_until_the_broker_takes_it";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    let space = namespace();
    let engine: Arc<dyn Engine> =
        jobq::engine::conformance::open(&broker.url(), &space).await.expect("it opens");
    engine.declare(&[QueueSpec::new("letters")]).await.expect("it declares");
    let large = jobs::with(jobs::job("letters"), |job| job.payload = vec![b' '; 2 * LIMIT]);
    let id = large.id;
    engine.push(large).await.expect("it is accepted");
    broker.set("max_message_size", u32::try_from(LIMIT).expect("a small number"));
    broker.stop();
    broker.restart().await;

    let mut consumer = engine.consume_from("letters", 1).await.expect("it consumes");
    let delivery = soon("the job", consumer.next()).await.expect("it goes on").expect("a job");
    let reason = jobq::FailedReason::Aborted;
    let fail = Settlement::Fail { reason, error: "no".to_owned(), attempts: 1 };
    let failing = tokio::spawn(delivery.settle(fail));
    // Others go on meanwhile, on the same connection.
    for _ in 0..200 {
        engine.push(jobs::job("letters")).await.expect("it is accepted");
    }
    assert!(!failing.is_finished(), "{failing:?}");
    // As an administrator does without a restart.
    let size = 4 * LIMIT;
    broker.ctl(&["eval", &format!("application:set_env(rabbit, max_message_size, {size}), persistent_term:put(max_message_size, {size}).")]).await;
    let settled = soon("the end of the job", failing).await.expect("it does not panic");
    settled.expect("it is moved");
    let failed = until("the failed job", async || engine.failed_find("letters", id).await.ok()?);
    assert_eq!(failed.await.id(), id);
}
