//! Programs whose user may not configure the broker, on a topology that an administrator declared.

use std::time::Duration;

use jobq::admin::{Figure, Queues};
use jobq::{BoxError, Client, ErrorKind, FindingKind, Severity, job};
use jobq_tests::broker::{self, Node};
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, until};

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

/// A test whose topology an administrator has declared, levels and subscriptions included.
pub(crate) async fn declared(store: Store) -> TestStore {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().register::<Welcome>().spawn().await.expect("it starts");
    let later = Scripted { steps: vec![Step::Succeed] };
    test.client.declare_delays().await.expect("declares");
    let yearly = Scripted { steps: vec![Step::Succeed] };
    let yearly = test.client.schedule("yearly", yearly).cron("0 0 1 1 *");
    yearly.await.expect("it is stored");
    test.client.enqueue(later).delay(Duration::from_millis(1)).await.expect("it is accepted");
    test.end().await;
    pool.shutdown().await.expect("it ends");
    test
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_write_and_read_needs_not_configure() {
    let Some(node) = broker::shared_with_ctl("who_may_write_and_read_needs_not_configure").await
    else {
        return;
    };
    let mut test = declared(Store::on_broker(node.url())).await;
    let user = client(node, &test.store, ["^$", ".*", ".*"]).await;
    let pool = test.pool_of(&user).register::<Welcome>().spawn().await.expect("it starts");
    let job = |steps: Vec<Step>| Scripted { steps };
    let fail = || Step::Fail("no".to_owned());
    let retried = user.enqueue(job(vec![fail(), Step::Succeed])).await.expect("it is accepted");
    until("the retry", async || (test.end().await == retried).then_some(())).await;
    let later = user.enqueue(job(vec![Step::Succeed])).delay(Duration::from_millis(200)).await;
    let later = later.expect("it is accepted");
    until("the delayed job", async || (test.end().await == later).then_some(())).await;
    user.publish("user.created", &7_u64).mandatory().await.expect("somebody subscribes");
    let failed = user.enqueue(job(vec![Step::Abort("no".into())])).await.expect("it is accepted");
    assert_eq!(test.failed("scripted").await.id(), failed);
    pool.shutdown().await.expect("it ends");

    // Nothing is called wrong that could not be looked at.
    let report = user.doctor().await.expect("it can be examined");
    assert!(report.is_sound(), "{report}");
    assert!(!report.to_string().contains("delete it"), "{report}");
    let uncompared = |found: &&jobq::Finding| {
        found.kind() == FindingKind::Unchecked && found.severity() == Severity::Note
    };
    assert_eq!(report.findings().iter().filter(uncompared).count(), 1, "{report}");
    assert!(report.to_string().contains("no permission to declare"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_enqueues_needs_only_write_to_the_exchanges() {
    let test = "who_only_enqueues_needs_only_write_to_the_exchanges";
    let Some(node) = broker::shared_with_ctl(test).await else {
        return;
    };
    let mut test = declared(Store::on_broker(node.url())).await;
    let name = &test.store.namespace;
    let write = format!("^{name}$|^{name}\\.(retry|events|level\\.[0-9])$");
    let user = client(node, &test.store, ["^$", &write, "^$"]).await;
    let job = || Scripted { steps: vec![Step::Succeed] };
    let now = user.enqueue(job()).await.expect("it is accepted");
    let later = user.enqueue(job()).delay(Duration::from_millis(200)).await;
    let later = later.expect("it is accepted");
    user.publish("user.created", &7_u64).await.expect("it is accepted");
    let pool = test.pool().spawn().await.expect("it starts");
    let mut ended = [test.end().await, test.end().await];
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

/// Its attempt is over and counts: it is not run again because its wait cannot be arranged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_kept_while_the_queues_of_its_wait_may_not_be_declared() {
    let test = "a_job_is_kept_while_the_queues_of_its_wait_may_not_be_declared";
    let Some(node) = broker::shared_with_ctl(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    test.pool().spawn().await.unwrap().shutdown().await.unwrap();
    let name = broker::namespace();
    let permit = async |configure| {
        node.ctl(&["set_permissions", &name, configure, ".*", ".*"]).await;
    };
    node.ctl(&["add_user", &name, "secret"]).await;
    permit("\\.control\\.").await;
    let user = test.store.client_as(&name, "secret").await;
    let job = test.enqueue([Step::RetryIn(1), Step::Succeed]).await;
    let pool = test.pool_of(&user).spawn().await.unwrap();
    let first = test.run().await;
    assert_eq!((first.id, first.attempt), (job, 1));
    let refused = format!("'{}.level.", test.store.namespace);
    let is_refused = |line: &str| line.contains(&refused) && line.contains("refused");
    until("the refusal", async || node.log().lines().any(is_refused).then_some(())).await;
    permit(".*").await;
    let second = test.run().await;
    assert_eq!((second.id, second.attempt), (job, 2));
    assert_eq!(test.end().await, job);
    pool.shutdown().await.unwrap();
}

/// The permissions of `docs/deploying.md`, for a namespace: to configure, to write, to read.
pub(crate) fn sets(namespace: &str) -> [(&'static str, [String; 3]); 3] {
    let uuid = "[0-9a-f-]{36}";
    [
        (
            "enqueue",
            [
                "^$".to_owned(),
                format!("^{namespace}$|^{namespace}\\.(retry|events|level\\.[0-9])$"),
                "^$".to_owned(),
            ],
        ),
        (
            "work",
            [
                format!("^{namespace}\\.control\\.{uuid}$"),
                format!("^{namespace}(?!\\.control\\.echo$)"),
                format!("^{namespace}"),
            ],
        ),
        (
            "operate",
            [
                format!("^{namespace}\\.control\\.{uuid}$|^{namespace}:.*@(paused|failed\\.lock)$"),
                format!("^{namespace}"),
                format!("^{namespace}"),
            ],
        ),
    ]
}

/// What a call ends with: nothing, or the kind of its error.
fn end<T>(result: jobq::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| {
        let said = error.to_string();
        assert!(error.kind() != ErrorKind::Refused || said.contains("ACCESS_REFUSED"), "{said}");
        error.kind()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_set_of_permissions_lets_through_what_it_is_for() {
    let test = "each_set_of_permissions_lets_through_what_it_is_for";
    let Some(node) = broker::shared_with_ctl(test).await else {
        return;
    };
    let test = declared(Store::on_broker(node.url())).await;
    let sets = sets(&test.store.namespace);
    let mut users = Vec::new();
    for (set, permissions) in sets {
        let permissions = permissions.each_ref().map(String::as_str);
        users.push((set, client(node, &test.store, permissions).await));
    }
    each_set_lets_through(test, users).await;
}

/// Who only enqueues asks no pools; who runs jobs asks them, and pauses no queue. The users have the
/// permissions of these sets.
pub(crate) async fn each_set_lets_through(mut test: TestStore, users: Vec<(&str, Client)>) {
    let refused = Some(ErrorKind::Refused);
    for (set, user) in users {
        let (works, operates) = (set != "enqueue", set == "operate");
        let allowed = |is_allowed: bool| if is_allowed { None } else { refused };
        let job = || Scripted { steps: vec![Step::Succeed] };
        let enqueued = user.enqueue(job()).await.expect("each may enqueue");
        let later = user.enqueue(job()).delay(Duration::from_millis(100)).await;
        let later = later.expect("each may enqueue with a delay");
        user.publish("user.created", &7_u64).await.expect("each may publish");
        let admin = user.admin();
        let pools = admin.pools(Queues::one("scripted"), Duration::from_secs(1)).await;
        assert_eq!(end(pools), allowed(works), "{set}: asking pools");
        assert_eq!(
            end(admin.pause("scripted", "a deploy").await),
            allowed(operates),
            "{set}: pause"
        );
        assert_eq!(end(admin.resume("scripted").await), allowed(operates), "{set}: resume");
        let schedule = user.schedule("other", job()).cron("0 0 1 1 *");
        assert_eq!(end(schedule.await), allowed(works), "{set}: schedule");
        let failed = user.failed("scripted");
        assert_eq!(end(failed.retry_all().await), allowed(operates), "{set}: failed jobs");
        // The user's own pool, or an administrator's.
        let pool = if works { test.pool_of(&user) } else { test.pool() };
        let pool = pool.register::<Welcome>().spawn().await.expect("it starts");
        let mut ended = [test.end().await, test.end().await];
        let mut expected = [enqueued, later];
        ended.sort();
        expected.sort();
        assert_eq!(ended, expected, "{set}");
        let administrator = test.client.admin();
        let pools = administrator.pools(Queues::one("scripted"), DEADLINE).await;
        let pools = pools.expect("an administrator asks");
        assert_eq!((pools.pools.len(), pools.unaccounted), (1, Figure::Known(0)), "{set}");
        // The user's pool holds the schedules.
        let run = administrator.run_schedule("yearly", Queues::one("scripted")).await;
        assert_eq!(test.end().await, run.expect("a pool holds it"), "{set}");
        let paused = administrator.pause("scripted", "a deploy").await.expect("pauses");
        assert!(paused.still_taking == 0, "{set}: {paused:?}");
        administrator.resume("scripted").await.expect("resumes");
        pool.shutdown().await.expect("it ends");
    }
}

/// A pool that may not have a control queue runs on, and is counted as one that goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_control_runs_on() {
    let Some(node) = broker::shared_with_ctl("a_pool_without_control_runs_on").await else {
        return;
    };
    let mut test = declared(Store::on_broker(node.url())).await;
    let user = client(node, &test.store, ["^$", ".*", ".*"]).await;
    let pool = test.pool_of(&user).spawn().await.expect("it starts");
    let admin = test.client.admin();
    let paused = admin.pause("scripted", "a deploy").await.expect("pauses");
    assert!(paused.still_taking > 0, "{paused:?}");
    let job = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.end().await, job);
    admin.resume("scripted").await.expect("resumes");
    pool.shutdown().await.expect("it ends");
}
