//! A policy that limits the length of one queue: what it stalls is that queue alone.

use std::collections::HashSet;
use std::time::Duration;

use jobq::{BoxError, ErrorKind, JobContext, JobId, State, WorkerPool, job};
use jobq_tests::broker::{Broker, shared_with_ctl};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, soon, until};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The broker passes on 32 at a time, and a quorum queue takes some beyond its limit.
const JOBS: usize = 200;

/// A wait that no tier has, and that is not over before a job is sent.
const DELAY: Duration = Duration::from_secs(1);

/// What the jobs of the full queue know of their test.
#[derive(Clone)]
struct Gate {
    begun: mpsc::UnboundedSender<()>,
    ended: mpsc::UnboundedSender<JobId>,
    open: CancellationToken,
}

/// The first attempt of such a job waits until the test lets it fail.
#[job(retries = 3, delay = "200ms", concurrency = 200)]
async fn full(fails: bool, ctx: JobContext, gate: State<Gate>) -> Result<(), BoxError> {
    if fails && ctx.attempt() == 1 {
        gate.begun.send(())?;
        gate.open.cancelled().await;
        return Err("once".into());
    }
    Ok(gate.ended.send(ctx.id())?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_stalls_itself_alone_and_loses_nothing() {
    let test = "a_full_queue_stalls_itself_alone_and_loses_nothing";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    // What a full queue refused is passed on again after this long, in milliseconds.
    node.set("dead_letter_worker_publisher_confirm_timeout", 500);
    node.stop();
    node.restart().await;
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let gate = Gate { begun, ended, open: CancellationToken::new() };
    let client = test.client.clone();
    let pool = || {
        WorkerPool::new(&client).state(gate.clone()).register::<Full>().shutdown_timeout(DEADLINE)
    };
    let running = pool().spawn().await.expect("the pool starts");
    test.client.declare_delays_up_to(DELAY).await.expect("the levels are made");
    let mut expected = HashSet::new();
    for _ in 0..JOBS {
        let job = Full { fails: true };
        expected.insert(test.client.enqueue(job).await.expect("the job is accepted"));
    }
    for _ in 0..JOBS {
        soon("an attempt to begin", begins.recv()).await.expect("the test keeps a sender");
    }

    let (space, limit) = (test.store.namespace.clone(), r#"{"max-length":1}"#);
    let queue = format!("{space}:full");
    let pattern = format!("^{queue}$");
    node.ctl(&["set_policy", "limit", &pattern, limit, "--apply-to", "queues"]).await;
    // The policy takes a moment, and a quorum queue looks at its length after a few more.
    let refused = async {
        loop {
            match test.client.enqueue(Full { fails: false }).await {
                Ok(id) => expected.insert(id),
                Err(error) => return error,
            };
        }
    };
    let error = soon("a job to be refused", refused).await;
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert!(error.maybe_enqueued(), "nobody can tell: {error:?}");
    assert!(error.to_string().contains("a policy limits its length"), "{error}");

    // Nobody takes jobs from the full queue any more, and then those in hand fail.
    let beside = expected.len() - JOBS;
    let stopping = tokio::spawn(running.shutdown());
    until("the queue to have no consumer", async || {
        let consumers = node.ctl(&["list_consumers", "queue_name", "--no-table-headers"]).await;
        (!consumers.lines().any(|line| line == queue)).then_some(())
    })
    .await;
    gate.open.cancel();
    let stopped = soon("the pool to end", stopping).await.expect("no panic");
    stopped.expect("the pool ends");

    // More come to the full queue out of a level that all queues share.
    for _ in 0..JOBS {
        let job = test.client.enqueue(Full { fails: false }).delay(DELAY);
        expected.insert(job.await.expect("a job with a delay is accepted"));
    }

    // Another queue goes on, its retries and its delayed jobs too. Each of them fails, and waits
    // in the level, after all those of the full queue did, and as long: when it is back, those
    // are overdue and were refused.
    let raw = Raw::connect(&node.url()).await;
    let ready = async || {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared =
            raw.channel.queue_declare(queue.as_str().into(), options, FieldTable::default());
        declared.await.expect("it is there").message_count() as usize
    };
    let others = WorkerPool::new(&test.client).state(test.script.clone());
    let others = others.register::<Scripted>().spawn().await.expect("the pool starts");
    for _ in 0..5 {
        let id = test.enqueue([Step::Fail("once".into()), Step::Succeed]).await;
        assert_eq!(test.end().await, id);
        let delayed = test.client.enqueue(Scripted { steps: vec![Step::Succeed] }).delay(DELAY);
        let id = delayed.await.expect("a job with a delay is accepted");
        assert_eq!(test.end().await, id);
        assert_eq!(ready().await, beside, "a job got into the full queue");
    }

    // All come back when there is room. RabbitMQ 3.10 tells those that were refused of a limit
    // that was raised, and not of one that is gone.
    if node.ctl(&["version"]).await.starts_with("3.") {
        let raised = r#"{"max-length":1000000}"#;
        node.ctl(&["set_policy", "limit", &pattern, raised, "--apply-to", "queues"]).await;
    } else {
        node.ctl(&["clear_policy", "limit"]).await;
    }
    let back = || async { (ready().await == expected.len()).then_some(()) };
    until("all jobs to be back", back).await;
    let running = pool().spawn().await.expect("the pool starts");
    while !expected.is_empty() {
        let id = soon("all jobs to end", ends.recv()).await.expect("the test keeps a sender");
        assert!(expected.remove(&id), "{id} ran again after its end");
    }
    assert!(begins.is_empty(), "a first attempt was made again");
    let id = test.client.enqueue(Full { fails: false }).await.expect("it takes jobs again");
    assert_eq!(soon("it to end", ends.recv()).await, Some(id));
    running.shutdown().await.expect("the pool ends");
    others.shutdown().await.expect("the pool ends");
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[job(on = "order.paid")]
async fn bill(order: Order) -> Result<(), BoxError> {
    Err(format!("order {} is never billed", order.number).into())
}

#[job(on = "order.paid")]
async fn ship(order: Order) -> Result<(), BoxError> {
    Err(format!("order {} is never shipped", order.number).into())
}

#[tokio::test]
async fn an_event_that_one_subscriber_refuses_may_be_with_the_others() {
    let test = "an_event_that_one_subscriber_refuses_may_be_with_the_others";
    let Some(node) = shared_with_ctl(test).await else {
        return;
    };
    let test = TestStore::on(Store::on_broker(node.url())).await;
    test.client.declare::<Bill>().await.expect("a subscriber");
    test.client.declare::<Ship>().await.expect("another one");
    let space = &test.store.namespace;
    let (name, pattern) = (format!("full-{space}"), format!("^{space}:bill$"));
    let limit = r#"{"max-length":1}"#;
    node.ctl(&["set_policy", &name, &pattern, limit, "--apply-to", "queues"]).await;
    let refused = async {
        let mut number = 0;
        loop {
            number += 1;
            if let Err(error) = test.client.publish("order.paid", &Order { number }).await {
                return (error, u64::from(number));
            }
        }
    };
    let (error, published) = soon("an event to be refused", refused).await;
    assert_eq!((error.kind(), error.maybe_enqueued()), (ErrorKind::Refused, true), "{error:?}");
    until("the other subscriber to have it", async || {
        let counts = test.client.counts("ship").await.expect("it is there");
        (counts.ready.known() == Some(&published)).then_some(())
    })
    .await;
    node.ctl(&["clear_policy", &name]).await;
}
