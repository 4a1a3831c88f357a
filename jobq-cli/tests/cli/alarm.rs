//! The command while the broker is low on memory.

use std::time::Duration;

use jobq_tests::broker::Broker;
use jobq_tests::test_store::{Scripted, Step, Store};

use crate::looks::set_up;
use crate::process::{Ran, eventually, jobq};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_is_named_and_nothing_is_done() {
    let test = "an_alarm_is_named_and_nothing_is_done";
    let Some((node, management)) = Broker::with_management(test).await else {
        return;
    };
    let test = set_up(Store::on_broker(node.url())).await;
    let later = Scripted { steps: vec![Step::Succeed] };
    test.client.enqueue(later).delay(Duration::from_secs(60_000)).await.unwrap();
    node.ctl(&["set_vm_memory_high_watermark", "0.00001"]).await;

    let alarm = "low on memory";
    // The alarm takes a moment to be heard all over the broker.
    eventually(&test.store, &["workers"], |ran| ran.code == 5 && ran.err.contains(alarm)).await;
    for arguments in [&["pause", "scripted", "--why", "upgrade"][..], &["resume", "scripted"]] {
        let ran = jobq(&test.store, arguments).await;
        let error = ran.error(5);
        assert!(error.contains(alarm) && error.contains("rabbitmq-diagnostics alarms"), "{ran:#?}");
    }
    let ran = jobq(&test.store, &["queues", "scripted"]).await;
    let row: Vec<_> = ran.lines(0)[1].split_whitespace().collect();
    assert_eq!(row, ["scripted", "?", "?", "?", "?", "?", "?", "?", "unknown"], "{ran:#?}");
    assert!(ran.err.contains(alarm), "{ran:#?}");
    let ran = jobq(&test.store, &["check", "scripted", "--failed-max", "0"]).await;
    let said = "scripted: failed: expected at most 0, found unknown (";
    assert!(ran.lines(1)[0].starts_with(said) && ran.out.contains(alarm), "{ran:#?}");

    let limits = ["--failed-max", "0", "--min-pools", "1", "--waited-max", "30s"];
    let ran = jobq(&test.store, &[&["check", "scripted"], &limits[..]].concat()).await;
    let [line] = ran.lines(1)[..] else { panic!("one reason is one line: {ran:#?}") };
    assert!(line.starts_with("scripted: failed, pools, waited: unknown ("), "{ran:#?}");

    // The management API counts the jobs of all queues, in the levels too.
    let api = ["--management", &management];
    let counted = |ran: &Ran| {
        let row: Vec<_> = ran.out.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        row.get(..5) == Some(&["scripted", "2", "0", "?", "1"])
            && ran.err.contains("jobs in the delay levels, of all queues: 1\n")
    };
    let ran = eventually(&test.store, &[&["queues", "scripted"], &api[..]].concat(), counted).await;
    assert!(ran.err.contains(alarm), "{ran:#?}");
    let ran = jobq(&test.store, &[&["check"], &limits[..], &api].concat()).await;
    let [unknown, failed] = ran.lines(1)[..] else { panic!("one reason is one line: {ran:#?}") };
    assert!(unknown.starts_with("hasty, scripted: pools, waited: unknown ("), "{ran:#?}");
    assert_eq!(failed, "scripted: failed: expected at most 0, found 1");

    node.ctl(&["set_vm_memory_high_watermark", "0.9"]).await;
    let ends = |state| move |ran: &Ran| ran.out.trim_end().ends_with(state);
    eventually(&test.store, &["queues", "scripted"], ends("unattended")).await;
}
