//! Jobs that are enqueued by name, without their type.

use jobq::{Client, Outgoing};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Step, Store, TestStore};
use serde_json::json;

both_engines!(a_job_runs_without_its_type, hooks_are_called, names_are_checked);

async fn a_job_runs_without_its_type(store: Store) {
    let mut test = TestStore::on(store).await;
    let payload = json!({"steps": [Step::Succeed]});
    let id = test.client.enqueue_named("scripted", "scripted", &payload).await.unwrap();
    let pool = test.pool().spawn().await.unwrap();
    assert_eq!(test.end().await, id);
    // Its retries are those of the worker's job.
    let payload = json!({"steps": [Step::Fail("no".into()), Step::Succeed]});
    let id = test.client.enqueue_named("scripted", "scripted", &payload).await.unwrap();
    assert_eq!(test.end().await, id);
    pool.shutdown().await.unwrap();

    let later = test.client.enqueue_named("scripted", "scripted", &payload).delay("1h");
    later.await.unwrap();
    assert_eq!(test.client.counts("scripted").await.unwrap().ready, 0, "it waits");
}

async fn hooks_are_called(store: Store) {
    let builder = Client::builder(&store.url).namespace(&store.namespace);
    let client = builder.on_enqueue(|job: &mut Outgoing| {
        if job.name() == Some("refused") {
            return Err("not this one".into());
        }
        let queue = job.queue().unwrap_or_default().to_owned();
        job.header("hook", queue)
    });
    let client = client.connect().await.unwrap();
    let payload = json!({"steps": [Step::Abort("no".into())]});
    client.enqueue_named("scripted", "scripted", &payload).header("tenant", "7").await.unwrap();
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let failed = test.failed("scripted").await;
    assert_eq!((failed.header("hook"), failed.header("tenant")), (Some("scripted"), Some("7")));
    pool.shutdown().await.unwrap();

    let error = client.enqueue_named("refused", "scripted", &payload).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("not this one"), "{error}");
}

async fn names_are_checked(store: Store) {
    let client = store.client().await;
    for (name, queue) in [("no name", "mail"), ("greet", "a..b")] {
        let error = client.enqueue_named(name, queue, &json!({})).await.unwrap_err();
        assert!(error.is_invalid(), "{error}");
    }
    let error = client.enqueue_named("greet", "mail", &f64::NAN).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("greet"), "{error}");
}
