//! Programs whose user may not configure the broker, on a topology that an administrator declared.

use std::time::Duration;

use jobq::{BoxError, Client, ErrorKind, FindingKind, Severity, job};
use jobq_tests::broker::{self, Node};
use jobq_tests::stage::{Scripted, Stage, Step, Store, until};

#[job(on = "user.*")]
async fn welcome(_user: u64) -> Result<(), BoxError> {
    Ok(())
}

/// A client as a new user with these permissions: to configure, to write, to read.
async fn client(node: &Node, store: &Store, permissions: [&str; 3]) -> Client {
    let name = broker::namespace();
    node.ctl(&["add_user", &name, "secret"]).await;
    node.ctl(&[&["set_permissions", &name], &permissions[..]].concat()).await;
    store.client_as(&name, "secret").await
}

/// A stage whose topology an administrator has declared, levels and subscriptions included.
async fn declared(node: &'static Node) -> Stage {
    let mut stage = Stage::on(Store::on_broker(node.url())).await;
    let pool = stage.pool().register::<Welcome>().spawn().await.expect("it starts");
    let later = Scripted { steps: vec![Step::Succeed] };
    stage.client.enqueue(later).delay(Duration::from_millis(1)).await.expect("it is accepted");
    stage.end().await;
    pool.shutdown().await.expect("it ends");
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_write_and_read_needs_not_configure() {
    let Some(node) = broker::shared_with_ctl("who_may_write_and_read_needs_not_configure").await
    else {
        return;
    };
    let mut stage = declared(node).await;
    let user = client(node, &stage.store, ["^$", ".*", ".*"]).await;
    let pool = stage.pool_of(&user).register::<Welcome>().spawn().await.expect("it starts");
    let job = |steps: Vec<Step>| Scripted { steps };
    let fail = || Step::Fail("no".to_owned());
    let retried = user.enqueue(job(vec![fail(), Step::Succeed])).await.expect("it is accepted");
    until("the retry", async || (stage.end().await == retried).then_some(())).await;
    let later = user.enqueue(job(vec![Step::Succeed])).delay(Duration::from_millis(200)).await;
    let later = later.expect("it is accepted");
    until("the delayed job", async || (stage.end().await == later).then_some(())).await;
    user.publish("user.created", &7_u64).mandatory().await.expect("somebody subscribes");
    let failed = user.enqueue(job(vec![Step::Abort("no".into())])).await.expect("it is accepted");
    assert_eq!(stage.failed("scripted").await.id(), failed);
    pool.shutdown().await.expect("it ends");

    // Nothing is called wrong that could not be looked at.
    let report = user.doctor().await.expect("it can be examined");
    assert!(report.is_sound(), "{report}");
    assert!(!report.to_string().contains("delete it"), "{report}");
    let uncompared = |found: &&jobq::Finding| {
        found.kind() == FindingKind::Unchecked && found.severity() == Severity::Note
    };
    assert_eq!(report.findings().iter().filter(uncompared).count(), 1, "{report}");
    assert!(report.to_string().contains("may not declare"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_enqueues_needs_only_write_to_the_exchanges() {
    let test = "who_only_enqueues_needs_only_write_to_the_exchanges";
    let Some(node) = broker::shared_with_ctl(test).await else {
        return;
    };
    let mut stage = declared(node).await;
    let name = &stage.store.namespace;
    let write = format!("^{name}$|^{name}\\.(retry|events|level\\.[0-9])$");
    let user = client(node, &stage.store, ["^$", &write, "^$"]).await;
    let job = || Scripted { steps: vec![Step::Succeed] };
    let now = user.enqueue(job()).await.expect("it is accepted");
    let later = user.enqueue(job()).delay(Duration::from_millis(200)).await;
    let later = later.expect("it is accepted");
    user.publish("user.created", &7_u64).await.expect("it is accepted");
    let pool = stage.pool().spawn().await.expect("it starts");
    let mut ended = [stage.end().await, stage.end().await];
    let mut expected = [now, later];
    ended.sort();
    expected.sort();
    assert_eq!(ended, expected);
    pool.shutdown().await.expect("it ends");
    let report = user.doctor().job::<Scripted>().await.expect("it can be examined");
    assert!(report.is_sound(), "{report}");
    assert!(!report.to_string().contains("delete it"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_named_to_who_may_not_declare_it() {
    let Some(node) =
        broker::shared_with_ctl("what_is_missing_is_named_to_who_may_not_declare_it").await
    else {
        return;
    };
    let store = Store::on_broker(node.url());
    for (write, read) in [(".*", ".*"), ("^$", "^$")] {
        let user = client(node, &store, ["^$", write, read]).await;
        let error = user.enqueue(Scripted { steps: Vec::new() }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(!error.maybe_enqueued(), "{error}");
        assert!(!error.maybe_enqueued(), "{error}");
        let said = error.to_string();
        assert!(said.contains("set_permissions"), "{said}");
        assert!(said.contains(&format!("`{}", store.namespace)), "{said}");
        assert!(!said.contains("delete"), "{said}");
    }
}
