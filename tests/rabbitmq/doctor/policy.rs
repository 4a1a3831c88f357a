use jobq::{Client, ErrorKind, FindingKind, Report, Severity};
use jobq_tests::test_store::{Scripted, Step, Store, TestStore};

use super::Place;

/// The test of a client that is told of the management API.
pub(super) async fn set_up(place: &Place) -> TestStore {
    let mut test = TestStore::on(Store::on_broker(place.node.url())).await;
    test.client = place.client_in(&test.store.namespace).await;
    test
}

/// The report of now, in which a policy is that was set a moment ago.
async fn report(client: &Client) -> Report {
    let report = client.doctor().await.expect("it can be examined");
    let policy = |found: &jobq::Finding| found.kind() == FindingKind::Policy;
    assert!(report.findings().iter().any(policy), "{report}");
    report
}

/// `keys` are those of the policy, each with its value as JSON and as text.
async fn refuses_to_start(of_operator: bool, keys: &[(&str, &str, &str)], test: &str) {
    let Some(place) = Place::shared(test).await else {
        return;
    };
    let test = set_up(&place).await;
    let space = &test.store.namespace;
    let pool = test.pool().spawn().await.expect("it starts");
    pool.shutdown().await.expect("it ends");

    let name = format!("limit-{space}");
    let set: Vec<_> = keys.iter().map(|(key, json, _)| format!(r#""{key}":{json}"#)).collect();
    let (pattern, definition) = (format!("^{space}:scripted$"), format!("{{{}}}", set.join(",")));
    let what = if of_operator { "set_operator_policy" } else { "set_policy" };
    place.node.ctl(&[what, &name, &pattern, &definition, "--apply-to", "queues"]).await;
    // At once, although the columns of the queue are older.
    let error = test.pool().spawn().await.expect_err("its jobs would be lost or stuck");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    let report = report(&test.client).await;
    let errors: Vec<_> = report.errors().collect();
    assert_eq!(errors.len(), keys.len(), "{report}");
    let clear = what.replace("set", "clear");
    for (found, (key, _, value)) in errors.iter().zip(keys) {
        assert_eq!(found.kind(), FindingKind::Policy);
        let said = [
            &format!("queue `{space}:scripted`"),
            &format!("policy `{name}` sets `{key}` to {value}"),
            &format!("`rabbitmqctl {clear} -p / {name}`"),
        ];
        for said in said {
            assert!(found.to_string().contains(said), "{said}: {report}");
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
    // What is said of a full queue holds on this version.
    if keys.iter().any(|(key, ..)| *key == "overflow") {
        for _ in 0..20 {
            let job = Scripted { steps: vec![Step::Succeed] };
            test.client.enqueue(job).await.expect("the broker accepts it");
        }
        let ready = test.client.counts("scripted").await.expect("they are counted").ready;
        assert!(ready < 5, "{ready} of 20 accepted jobs are left");
    }
    // Who cannot know of it starts, and the doctor says what it could not see.
    let plain = place.plain_client_in(space).await;
    let running = test.pool_of(&plain).spawn().await.expect("it starts");
    running.shutdown().await.expect("it ends");

    // And it is gone at once.
    place.node.ctl(&[&clear, &name]).await;
    let running = test.pool().spawn().await.expect("it starts");
    running.shutdown().await.expect("it ends");
    let report = test.client.doctor().await.expect("it can be examined");
    assert!(report.is_sound(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_does_not_start_on_a_queue_that_loses_its_oldest_jobs() {
    let test = "a_pool_does_not_start_on_a_queue_that_loses_its_oldest_jobs";
    let keys = [("max-length", "1", "1"), ("overflow", r#""drop-head""#, "drop-head")];
    refuses_to_start(false, &keys, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_does_not_start_on_a_queue_with_a_ttl_of_an_operator() {
    let test = "a_pool_does_not_start_on_a_queue_with_a_ttl_of_an_operator";
    refuses_to_start(true, &[("message-ttl", "60000", "60000")], test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_sees_the_policies_of_now() {
    let Some(place) = Place::shared("the_doctor_sees_the_policies_of_now").await else {
        return;
    };
    let test = set_up(&place).await;
    let space = &test.store.namespace;
    test.client.declare::<Scripted>().await.expect("declares");
    let (low, high) = (format!("low-{space}"), format!("high-{space}"));
    let pattern = format!("^{}:SCRIPTED$|^{space}:(?=s)scripted$", space.to_uppercase());
    let set = async |name: &str, priority: &str, definition: &str| {
        let of = ["--priority", priority, "--apply-to", "queues"];
        place.node.ctl(&[&["set_policy", name, &pattern, definition], &of[..]].concat()).await;
    };
    let told = async || {
        let report = test.client.doctor().await.expect("it can be examined");
        let told = report.findings().iter().filter(|it| it.kind() == FindingKind::Policy);
        told.map(|found| found.what().to_owned()).collect::<Vec<_>>()
    };
    assert!(told().await.is_empty());
    set(&low, "1", r#"{"max-length":5}"#).await;
    assert_eq!(told().await, [format!("policy `{low}` sets `max-length` to 5")]);
    set(&low, "1", r#"{"max-length":6}"#).await;
    assert_eq!(told().await, [format!("policy `{low}` sets `max-length` to 6")]);
    // Another one takes its place.
    set(&high, "2", r#"{"expires":3600000}"#).await;
    assert_eq!(told().await, [format!("policy `{high}` sets `expires` to 3600000")]);
    place.node.ctl(&["clear_policy", &high]).await;
    assert_eq!(told().await, [format!("policy `{low}` sets `max-length` to 6")]);
    place.node.ctl(&["clear_policy", &low]).await;
    assert!(told().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_deletes_failed_jobs_alone_is_a_warning() {
    let test = "what_deletes_failed_jobs_alone_is_a_warning";
    let Some(place) = Place::shared(test).await else {
        return;
    };
    let test = set_up(&place).await;
    let space = &test.store.namespace;
    let name = format!("tidy-{space}");
    let (pattern, month) = (format!("^{space}:.*@failed$"), r#"{"message-ttl":2592000000}"#);
    test.pool().spawn().await.expect("it starts").shutdown().await.expect("it ends");
    place.node.ctl(&["set_policy", &name, &pattern, month, "--apply-to", "queues"]).await;
    let report = report(&test.client).await;
    let policies: Vec<_> =
        report.findings().iter().filter(|found| found.kind() == FindingKind::Policy).collect();
    assert!(report.is_sound(), "{report}");
    // One for the three queues of failed jobs that the pool has.
    assert_eq!(policies.len(), 1, "{report}");
    assert_eq!(policies[0].severity(), Severity::Warning);
    assert!(policies[0].why().contains("failed jobs are deleted after 30d"), "{report}");
    test.pool().spawn().await.expect("it starts").shutdown().await.expect("it ends");
    place.node.ctl(&["clear_policy", &name]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_on_another_programs_queue_is_not_this_pools_matter() {
    let test = "a_policy_on_another_programs_queue_is_not_this_pools_matter";
    let Some(place) = Place::shared(test).await else {
        return;
    };
    let test = set_up(&place).await;
    let space = &test.store.namespace;
    let other = jobq::Client::builder(place.node.url()).namespace(space).connect().await;
    let other = other.expect("connects");
    other.declare::<Other>().await.expect("declares");
    let (name, pattern) = (format!("other-{space}"), format!("^{space}:other$"));
    let limit = r#"{"max-length":1}"#;
    place.node.ctl(&["set_policy", &name, &pattern, limit, "--apply-to", "queues"]).await;
    assert!(!report(&test.client).await.is_sound());
    test.pool().spawn().await.expect("it starts").shutdown().await.expect("it ends");
    place.node.ctl(&["clear_policy", &name]).await;
}

#[derive(serde::Serialize, serde::Deserialize, jobq::Job)]
struct Other {}
