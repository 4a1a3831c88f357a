//! Somebody deletes what jobq declared, under a pool that runs.

use std::collections::BTreeSet;
use std::time::Duration;

use jobq::{BoxError, FailedReason, job};
use jobq_tests::declared::declared_in;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore, until};
use jobq_tests::vhost::Vhost;
use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::FieldTable;

const BETWEEN_QUESTIONS: Duration = Duration::from_secs(3);

#[job(on = "user.*")]
async fn welcome(_user: u64) -> Result<(), BoxError> {
    Ok(())
}

/// A pool's test in a vhost of its own, with all that can be declared.
async fn set_up(vhost: &Vhost) -> (TestStore, jobq::RunningPool, BTreeSet<String>) {
    let test = TestStore::on(Store::on_broker(vhost.url())).await;
    let pool = test.pool().register::<Welcome>().spawn().await.expect("it starts");
    test.client.declare_delays_up_to(Duration::from_secs(1)).await.expect("declares");
    let later = Scripted { steps: vec![Step::Succeed] };
    test.client.enqueue(later).delay(Duration::from_millis(1)).await.expect("it is accepted");
    let all = declared_in(vhost, &test.store.namespace).await.into_iter().collect();
    (test, pool, all)
}

/// The second word of each line that begins with this one.
fn names<'l>(lines: &'l BTreeSet<String>, what: &str) -> Vec<&'l str> {
    let name = |line: &'l String| line.strip_prefix(what)?.trim_start().split(' ').next();
    lines.iter().filter_map(name).collect()
}

/// Waits until all is declared again. A pool looks every 30 to 50 seconds, and each question here
/// costs more than such a look.
async fn restored(vhost: &Vhost, namespace: &str, all: &BTreeSet<String>) {
    until("what was deleted", async || {
        let found = declared_in(vhost, namespace).await.into_iter().collect();
        if all.is_subset(&found) {
            return Some(());
        }
        tokio::time::sleep(BETWEEN_QUESTIONS).await;
        None
    })
    .await;
}

/// A job that fails once is retried, one that fails each time is a failed one, an event comes,
/// and a delayed job as well.
async fn all_ways_lead_somewhere(test: &mut TestStore) {
    let fail = || Step::Fail("no".to_owned());
    let retried = test.enqueue([fail(), Step::Succeed]).await;
    until("the retry", async || (test.end().await == retried).then_some(())).await;
    let failed = test.enqueue([Step::Abort("no".to_owned())]).await;
    assert_eq!(test.failed("scripted").await.id(), failed);
    let later = Scripted { steps: vec![Step::Succeed] };
    let later = test.client.enqueue(later).delay(Duration::from_millis(200)).await;
    let later = later.expect("it is accepted");
    until("the delayed job", async || (test.end().await == later).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_but_the_work_queues_is_declared_again() {
    let test = "everything_but_the_work_queues_is_declared_again";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let (mut test, pool, all) = set_up(&vhost).await;
    test.end().await;
    let raw = Raw::connect(&vhost.url()).await;
    for exchange in names(&all, "exchange") {
        raw.delete_exchange(exchange).await;
    }
    for queue in names(&all, "queue") {
        if queue.contains('@') || queue.contains(".level.") || queue.contains(".orphan") {
            raw.delete(queue).await;
        }
    }
    restored(&vhost, &test.store.namespace, &all).await;
    all_ways_lead_somewhere(&mut test).await;
    assert!(pool.health().missing.is_none());
    pool.shutdown().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_are_made_again() {
    let Some(vhost) = Vhost::of("bindings_are_made_again").await else {
        return;
    };
    let (mut test, pool, all) = set_up(&vhost).await;
    test.end().await;
    let raw = Raw::connect(&vhost.url()).await;
    for line in &all {
        let words: Vec<_> = line.split([' ', '=']).collect();
        // Those of the levels take turns, one level a look.
        let ["binding", from, "->", queue, rest @ ..] = &words[..] else {
            continue;
        };
        if queue.contains(".level.") {
            continue;
        }
        let key = rest.get(1).copied().unwrap_or_default();
        let (queue, from) = ((*queue).into(), (*from).into());
        raw.channel
            .queue_unbind(queue, from, key.into(), FieldTable::default())
            .await
            .expect("it is unbound");
    }
    restored(&vhost, &test.store.namespace, &all).await;
    all_ways_lead_somewhere(&mut test).await;
    pool.shutdown().await.expect("it ends");
}

/// Without waiting for the next look: the retry itself tells that its way is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_finds_no_way_makes_it_anew() {
    let Some(vhost) = Vhost::of("a_retry_that_finds_no_way_makes_it_anew").await else {
        return;
    };
    let (mut test, pool, all) = set_up(&vhost).await;
    test.end().await;
    let raw = Raw::connect(&vhost.url()).await;
    for queue in names(&all, "queue") {
        if queue.contains("@wait.") || queue.contains("@due") {
            raw.delete(queue).await;
        }
    }
    all_ways_lead_somewhere(&mut test).await;
    let failed = test.client.failed("scripted").list(10).await.expect("they are listed");
    assert!(failed.iter().all(|job| job.reason() == FailedReason::Aborted), "{failed:?}");
    pool.shutdown().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_may_not_declare_says_what_is_missing() {
    let test = "a_pool_that_may_not_declare_says_what_is_missing";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let (mut test, admin, _) = set_up(&vhost).await;
    test.end().await;
    admin.shutdown().await.expect("it ends");
    // It would declare again what is missing.
    test.client.close().await;
    let name = &test.store.namespace;
    vhost.node().ctl(&["add_user", name, "secret"]).await;
    vhost.permit(name, ["^$", ".*", ".*"]).await;
    let user = test.store.client_as(name, "secret").await;
    let pool = test.pool_of(&user).spawn().await.expect("all that it needs is there");
    assert!(pool.health().missing.is_none());

    let raw = Raw::connect(&vhost.url()).await;
    let retry = format!("{name}.retry");
    raw.delete_exchange(&retry).await;
    let missing = until("what is missing", async || pool.health().missing).await;
    assert!(missing.to_string().contains(&format!("exchange `{retry}`")), "{missing}");
    assert!(missing.to_string().contains("set_permissions"), "{missing}");
    assert!(pool.health().is_consuming(), "{:?}", pool.health());

    // As an administrator declares it.
    let topology = test.pool().topology().expect("it can be told").to_string();
    let of_retry = format!("exchange {retry} direct alternate-exchange={name}.orphan");
    assert!(topology.contains(&of_retry), "{topology}");
    let mut arguments = FieldTable::default();
    let orphan = jobq_tests::raw::text(&format!("{name}.orphan"));
    arguments.insert("alternate-exchange".into(), orphan);
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let kind = ExchangeKind::Direct;
    let declared = raw.channel.exchange_declare(retry.as_str().into(), kind, options, arguments);
    declared.await.expect("it is declared");
    until("all is there", async || pool.health().missing.is_none().then_some(())).await;
    // Its bindings are made again without the permission to configure.
    let steps = vec![Step::Fail("no".to_owned()), Step::Succeed];
    let retried = user.enqueue(Scripted { steps }).await.expect("it is accepted");
    until("the retry", async || (test.end().await == retried).then_some(())).await;
    pool.shutdown().await.expect("it ends");
}
