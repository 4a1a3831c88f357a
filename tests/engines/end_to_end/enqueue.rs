//! Enqueueing.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use jobq::{Client, JobId};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore};

use super::nothing_is_left;

both_engines!(
    delays_before_the_first_attempt,
    many_jobs_are_enqueued_at_once,
    jobs_are_sent_while_the_next_ones_are_made,
    callers_who_stop_to_listen_hold_up_nobody,
    what_is_not_awaited_is_not_enqueued,
    one_id_twice_is_two_jobs,
    names_are_checked,
);

pub(crate) async fn delays_before_the_first_attempt(store: Store) {
    let mut test = TestStore::on(store).await;
    let job = || Scripted { steps: vec![Step::Succeed] };
    let running = test.pool().spawn().await.unwrap();
    let long = Duration::from_secs(3);
    test.client.declare_delays_up_to(long).await.unwrap();
    let begin = std::time::Instant::now();
    let long = test.client.enqueue(job()).delay(long).await.unwrap();
    let soon = SystemTime::now() + Duration::from_millis(1_500);
    let middle = test.client.enqueue(job()).at(soon).await.unwrap();
    // No wait and a time that has passed are no delay.
    let none = test.client.enqueue(job()).delay(Duration::ZERO).await.unwrap();
    let past = test.client.enqueue(job()).at(SystemTime::UNIX_EPOCH).await.unwrap();
    let at_once = HashSet::from([test.run().await.id, test.run().await.id]);
    assert_eq!(at_once, [none, past].into());
    for (id, wait) in [(middle, 1_490), (long, 3_000)] {
        let run = test.run().await;
        assert_eq!(run.id, id);
        assert!(run.at - begin >= Duration::from_millis(wait), "it was not early");
    }
    running.shutdown().await.unwrap();
}

async fn many_jobs_are_enqueued_at_once(store: Store) {
    let test = TestStore::on(store).await;
    let jobs = (0..2_000).map(|_| Scripted { steps: vec![] });
    let ids = test.client.enqueue_all(jobs).await.unwrap();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 2_000);
    assert_eq!(test.client.counts("scripted").await.unwrap().ready, 2_000);
    let large = "x".repeat(jobq::MAX_PAYLOAD);
    let jobs =
        ["small", &large, "small"].map(|text| Scripted { steps: vec![Step::Fail(text.into())] });
    let error = test.client.enqueue_all(jobs).await.unwrap_err();
    let accepted: Vec<_> = error.accepted().iter().map(|(index, _)| *index).collect();
    let refused: Vec<_> = error.refused().iter().map(|(index, _)| *index).collect();
    assert_eq!((accepted, refused, error.unknown().len()), (vec![0, 2], vec![1], 0));
    assert!(error.refused()[0].1.is_invalid());
    assert!(test.client.enqueue_all(Vec::<Scripted>::new()).await.unwrap().is_empty());
}

/// More jobs than may be on their way: the first one runs before the last one is asked for.
async fn jobs_are_sent_while_the_next_ones_are_made(store: Store) {
    const JOBS: usize = 5_000;
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    let (ran, first) = mpsc::channel();
    let client = test.client.clone();
    let enqueueing = tokio::spawn(async move {
        let jobs = (0..JOBS).map(move |number| {
            if number == JOBS - 1 {
                first
                    .recv_timeout(Duration::from_secs(60))
                    .expect("the first one runs before the last one is made");
            }
            Scripted { steps: vec![Step::Succeed] }
        });
        client.enqueue_all(jobs).await.unwrap().len()
    });
    test.run().await;
    ran.send(()).unwrap();
    assert_eq!(enqueueing.await.unwrap(), JOBS);
    for _ in 0..JOBS {
        test.end().await;
    }
    running.shutdown().await.unwrap();
    nothing_is_left(&test.client, "scripted").await;
}

/// More of them than may be on their way, who hear of nothing until all others are answered.
async fn callers_who_stop_to_listen_hold_up_nobody(store: Store) {
    let test = TestStore::on(store).await;
    let enqueue = || test.client.enqueue(Scripted { steps: vec![] }).into_future();
    enqueue().await.unwrap();
    let mut silent: Vec<_> = (0..3_000).map(|_| enqueue()).collect();
    silent.retain_mut(|caller| caller.now_or_never().is_none());
    for _ in 0..20 {
        enqueue().await.unwrap();
    }
    for answer in join_all(silent).await {
        answer.unwrap();
    }
    assert_eq!(test.client.counts("scripted").await.unwrap().ready, 3_021);
}

async fn what_is_not_awaited_is_not_enqueued(store: Store) {
    let test = TestStore::on(store).await;
    let job = || test.client.enqueue(Scripted { steps: vec![] });
    job().await.unwrap();
    drop(job());
    drop(job().into_future());
    // What was sent before it is there when this is.
    job().await.unwrap();
    assert_eq!(test.client.counts("scripted").await.unwrap().ready, 2);
}

async fn one_id_twice_is_two_jobs(store: Store) {
    let mut test = TestStore::on(store).await;
    let id = JobId::new();
    let running = test.pool().concurrency(3).spawn().await.unwrap();
    for _ in 0..2 {
        let job = Scripted { steps: vec![Step::Wait] };
        assert_eq!(test.client.enqueue(job).id(id).await.unwrap(), id);
    }
    // They run side by side, and a third job beside them.
    assert_eq!((test.run().await.id, test.run().await.id), (id, id));
    let other = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, other);
    test.go();
    assert_eq!((test.end().await, test.end().await), (id, id));
    running.shutdown().await.unwrap();
    nothing_is_left(&test.client, "scripted").await;
}

async fn names_are_checked(store: Store) {
    let client = store.client().await;
    for queue in ["", "a b", "a:b", "..", "x/y"] {
        assert!(client.failed(queue).list(1).await.unwrap_err().is_invalid(), "{queue}");
        assert!(client.counts(queue).await.unwrap_err().is_invalid(), "{queue}");
    }
    let failed = client.failed("no.such.queue");
    for told in [
        failed.list(1).await.map(drop),
        failed.show(JobId::new()).await.map(drop),
        failed.retry(JobId::new()).await,
        failed.retry_all().await.map(drop),
        failed.purge().await.map(drop),
    ] {
        let error = told.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert!(error.to_string().starts_with("queue `no.such.queue` does not exist; "), "{error}");
    }
    assert_eq!(client.counts("no.such.queue").await.unwrap(), jobq::engine::Counts::new(0, 0, 0));
    let builder = Client::builder(&store.url).namespace("No Namespace");
    assert!(builder.connect().await.unwrap_err().is_invalid());
}
