use std::time::Duration;

use jobq::{Client, FindingKind, Severity, WorkerPool};
use jobq_tests::broker::{Broker, namespace};
use jobq_tests::raw::{Raw, text};
use jobq_tests::test_store::{Scripted, Step, until};
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};

use super::{Place, SINGLE_NODE, UNCHECKED, expected, found};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_sound_broker_only_what_it_is_is_told() {
    let Some(place) = Place::shared("of_a_sound_broker_only_what_it_is_is_told").await else {
        return;
    };
    let (client, namespace) = place.client().await;
    // With a delay, so that the levels are there and looked at, too.
    let job = Scripted { steps: vec![Step::Succeed] };
    client.enqueue(job).delay(Duration::from_secs(3_600)).await.expect("it is accepted");
    let report = client.doctor().await.expect("it can be examined");
    assert_eq!(found(&report), expected(&report, &[SINGLE_NODE]), "{report}");
    assert!(report.is_sound());
    let version = place.node.ctl(&["eval", "io:format(rabbit_misc:version())."]).await;
    assert!(version.starts_with(report.version().expect("it says so")), "{version}: {report}");
    let host = place.node.url().replace("amqp://", "");
    for said in [&host, &namespace, "single node"] {
        assert!(report.to_string().contains(said), "{said}: {report}");
    }
    assert!(!report.to_string().contains("guest:guest"), "{report}");

    // Without the management API, that is what is told in place of the node.
    let plain = place.plain_client_in(&namespace).await;
    let report = plain.doctor().job::<Scripted>().await.expect("it can be examined");
    assert_eq!(found(&report), expected(&report, &[UNCHECKED]), "{report}");
    assert!(report.to_string().contains("JOBQ_MANAGEMENT_URL"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_changes_nothing() {
    let Some(place) = Place::shared("a_look_changes_nothing").await else {
        return;
    };
    let (client, namespace) = place.client().await;
    for client in [client, place.plain_client_in(&namespace).await] {
        let report = client.doctor().job::<Scripted>().await.expect("it can be examined");
        let missing = report.findings().iter().find(|found| found.kind() == FindingKind::Queue);
        let missing = missing.unwrap_or_else(|| panic!("{report}"));
        assert_eq!(missing.severity(), Severity::Note);
        assert_eq!(missing.about(), format!("queue `{namespace}:scripted`"));
    }
    let report = jobq::doctor(place.node.url()).await.expect("it can be examined");
    assert_eq!(found(&report), expected(&report, &[UNCHECKED]), "{report}");
    for what in ["list_queues", "list_exchanges"] {
        let there = place.node.ctl(&[what, "name", "--silent"]).await;
        assert!(!there.contains(&namespace), "{there}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_client_declared_otherwise_is_named() {
    let Some(place) = Place::shared("what_another_client_declared_otherwise_is_named").await else {
        return;
    };
    let (client, namespace) = place.client().await;
    let raw = Raw::connect(&place.node.url()).await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(5));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let queue = format!("{namespace}:scripted");
    let declared = raw.channel.queue_declare(queue.as_str().into(), options, arguments).await;
    declared.expect("it is declared");
    let (name, kind) = (namespace.as_str().into(), ExchangeKind::Topic);
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let declared = raw.channel.exchange_declare(name, kind, options, FieldTable::default()).await;
    declared.expect("it is declared");

    let plain = place.plain_client_in(&namespace).await;
    for report in [
        client.doctor().job::<Scripted>().await.expect("it can be examined"),
        // Neither needs to be told of the queue, where it can be seen.
        client.doctor().await.expect("it can be examined"),
        plain.doctor().queue("scripted").await.expect("it can be examined"),
    ] {
        let different: Vec<_> = report.errors().collect();
        assert_eq!(different.len(), 2, "{report}");
        assert!(different.iter().all(|found| found.kind() == FindingKind::Arguments), "{report}");
        for about in [format!("queue `{queue}`"), format!("exchange `{namespace}`")] {
            assert!(different.iter().any(|found| found.about() == about), "{report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_is_found_with_and_without_the_management_api() {
    let test = "an_alarm_is_found_with_and_without_the_management_api";
    let Some((node, management)) = Broker::with_management(test).await else {
        return;
    };
    let space = namespace();
    let plain = Client::builder(node.url()).namespace(&space).connect().await.expect("connects");
    let builder = Client::builder(node.url()).namespace(&space).management(management);
    let client = builder.connect().await.expect("connects");
    let alarms = async |client: &Client| {
        let report = client.doctor().await.expect("it can be examined");
        let alarm = |found: &&jobq::Finding| found.kind() == FindingKind::Alarm;
        report.findings().iter().filter(alarm).map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(alarms(&plain).await, [""; 0]);
    assert_eq!(alarms(&client).await, [""; 0]);
    node.ctl(&["set_disk_free_limit", "1000000000000000"]).await;
    let told = until("the alarm", async || Some(alarms(&plain).await).filter(|a| !a.is_empty()));
    let told = told.await;
    assert!(told.len() == 1 && told[0].contains("`low on disk`"), "{told:?}");
    let told = until("the node's alarm", async || {
        Some(alarms(&client).await).filter(|alarms| alarms.len() == 2)
    });
    let told = told.await;
    assert!(told.iter().any(|alarm| alarm.contains("node `jobq-")), "{told:?}");
    node.ctl(&["set_disk_free_limit", "50000000"]).await;
    until("the end of the alarm", async || alarms(&client).await.is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_looked_at_is_told_and_keeps_no_pool_from_starting() {
    let test = "what_cannot_be_looked_at_is_told_and_keeps_no_pool_from_starting";
    let Some(place) = Place::shared(test).await else {
        return;
    };
    let api = |user: &str| place.management.replace("http://", &format!("http://{user}@"));
    place.node.ctl(&["add_user", "eve", "geheim"]).await;
    place.node.ctl(&["set_permissions", "eve", ".*", ".*", ".*"]).await;
    let table = [
        ("http://127.0.0.1:1".to_owned(), 2, "cannot reach http://127.0.0.1:1"),
        (api("ann:geheim"), 2, "refused user `ann`"),
        (api("eve:geheim"), 2, "set_user_tags eve monitoring"),
        (format!("{}/elsewhere", place.management), 2, "answered with status 404"),
    ];
    for (url, unchecked, said) in table {
        let builder = Client::builder(place.node.url()).namespace(namespace()).management(url);
        let client = builder.connect().await.expect("it is not asked yet");
        let report = client.doctor().await.expect("the rest can be examined");
        assert_eq!(found(&report), expected(&report, &vec![UNCHECKED; unchecked]), "{report}");
        assert!(report.to_string().contains(said), "{said}: {report}");
        assert!(!report.to_string().contains("geheim"), "{report}");
        let pool = WorkerPool::new(&client).handle(ping).spawn().await.expect("it starts");
        pool.shutdown().await.expect("it ends");
    }
    // With the least of the tags the policies are seen, and the nodes are not.
    place.node.ctl(&["set_user_tags", "eve", "management"]).await;
    let builder = Client::builder(place.node.url()).management(api("eve:geheim"));
    let client = builder.connect().await.expect("connects");
    let report = client.doctor().await.expect("the rest can be examined");
    assert_eq!(found(&report), expected(&report, &[UNCHECKED]), "{report}");
}

#[derive(serde::Serialize, serde::Deserialize, jobq::Job)]
struct Ping {}

async fn ping(_: Ping) -> Result<(), jobq::BoxError> {
    Ok(())
}
