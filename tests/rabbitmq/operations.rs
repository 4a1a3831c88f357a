//! Operations on failed jobs, while brokers die and refuse.

use std::collections::HashMap;

use jobq::admin::{End, Filter};
use jobq::engine::conformance::{EngineExt as _, open};
use jobq::engine::{Envelope, Settlement};
use jobq::{Client, FailedJob, JobId};
use jobq_tests::broker::Broker;
use jobq_tests::failures::fail;
use jobq_tests::test_store::{soon, until};

const QUEUE: &str = "letters";

fn letter(size: usize) -> Envelope {
    let mut job = Envelope::new(QUEUE, format!("\"{}\"", "x".repeat(size)).into_bytes());
    job.name = Some("greet".into());
    job
}

/// Each job is afterwards in one place, or in two if it is `unknown`, and never in none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_dies_in_the_middle_loses_no_job() {
    const COUNT: usize = 10_000;
    let test = "a_broker_that_dies_in_the_middle_loses_no_job";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let engine = open(&node.url(), "jobq").await.expect("opens");
    fail(&*engine, QUEUE, (0..COUNT).map(|_| letter(100))).await;
    let failed_ids = async || -> Vec<JobId> {
        let jobs = engine.failed_list(QUEUE, usize::MAX).await.expect("lists");
        jobs.iter().map(FailedJob::id).collect()
    };
    let mut left = failed_ids().await;
    assert_eq!(left.len(), COUNT);
    let client = Client::connect(node.url()).await.unwrap();
    // Otherwise a quick machine is through before it dies.
    let retrying = client.failed(QUEUE).retry_where(Filter::new()).rate(2_000.0);
    let running = retrying.start().unwrap();
    until("a part to be back", async || {
        let counts = engine.admin().counts(QUEUE).await.ok();
        counts.and_then(|counts| counts.ready.known().copied()).filter(|ready| *ready > 500)
    })
    .await;
    let progress = running.progress().borrow().clone();
    assert!(progress.settled < COUNT as u64, "it is in the middle: {progress:?}");
    node.kill();
    node.restart().await;
    let done = soon("the end", running.finish()).await.unwrap();
    // Between two passes nothing is lost, and it goes on.
    assert!(matches!(done.end, End::Lost(_) | End::Finished), "{done:?}");
    assert!(done.settled > 0, "{done:?}");

    let mut places: HashMap<JobId, u64> = left.drain(..).map(|id| (id, 0)).collect();
    // A queue that has just come back may not tell yet.
    let (ready, still_failed) = until("the jobs to be counted", async || {
        let counts = engine.admin().counts(QUEUE).await.ok()?;
        let (ready, failed) = (*counts.ready.known()?, *counts.failed.known()?);
        (ready + failed >= COUNT as u64).then_some((ready, failed))
    })
    .await;
    let ids = failed_ids().await;
    assert_eq!(ids.len() as u64, still_failed);
    for id in ids {
        *places.get_mut(&id).expect("it is one of them") += 1;
    }
    let mut consumer = engine.consume_from(QUEUE, 500).await.expect("consumes");
    for _ in 0..ready {
        let delivery = soon("a delivery", consumer.next()).await.expect("goes on").expect("comes");
        *places.get_mut(&delivery.envelope().id).expect("it is one of them") += 1;
        delivery.settle(Settlement::Complete).await.expect("settles");
    }
    let count = |wanted: u64| places.values().filter(|places| **places == wanted).count() as u64;
    assert_eq!(count(0), 0, "no job is lost");
    assert!(count(2) <= done.unknown, "{} jobs are in two places: {done:?}", count(2));
    assert_eq!(count(1) + count(2), COUNT as u64);
    engine.close().await;
}

/// A job that is larger than the broker takes stays, and the others go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_refused_stays_and_the_others_go_back() {
    let test = "a_job_that_is_refused_stays_and_the_others_go_back";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let engine = open(&node.url(), "jobq").await.expect("opens");
    let sizes = (0..200).map(|number| if number == 90 { 200_000 } else { 100 });
    fail(&*engine, QUEUE, sizes.map(letter)).await;
    engine.close().await;
    node.kill();
    node.set("max_message_size", 100_000);
    node.restart().await;
    let client = Client::connect(node.url()).await.unwrap();
    // A broker that has just started may say that there are none.
    until("the jobs to be there", async || {
        let counts = client.counts(QUEUE).await.ok()?;
        (counts.failed == 200).then_some(())
    })
    .await;
    let failed = client.failed(QUEUE);
    let done = failed.retry_where(Filter::new()).await.unwrap();
    assert!(matches!(done.end, End::Finished), "{done:?}");
    assert_eq!((done.matched, done.settled, done.unknown), (200, 199, 0));
    let left = failed.list(10).await.unwrap();
    assert_eq!(left.len(), 1);
    let [(id, error)] = &done.refused[..] else { panic!("{done:?}") };
    assert_eq!(*id, left[0].id());
    assert!(error.is_invalid() || error.is_refused(), "{error:?}");
}

/// A queue that starts counts what it has read of its log so far.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_has_just_started_hides_no_failed_job() {
    const COUNT: usize = 200;
    let test = "a_broker_that_has_just_started_hides_no_failed_job";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let engine = open(&node.url(), "jobq").await.expect("opens");
    fail(&*engine, QUEUE, (0..COUNT).map(|_| letter(10))).await;
    engine.close().await;
    for round in 0..3 {
        if round % 2 == 0 {
            node.kill();
        } else {
            node.stop();
        }
        let restarting = node.restart();
        let asking = async {
            // The first connection that the broker takes asks at once.
            let client = until("a connection", async || Client::connect(node.url()).await.ok());
            let client = client.await;
            let done = client.failed(QUEUE).retry_where(Filter::new()).dry_run().await;
            client.close().await;
            done
        };
        let (done, ()) = tokio::join!(asking, restarting);
        let done = done.expect("it answers");
        assert_eq!((done.matched, done.settled), (COUNT as u64, 0), "round {round}: {done:?}");
    }
}
