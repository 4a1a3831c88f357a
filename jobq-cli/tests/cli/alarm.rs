//! The command while the broker is low on memory.

use jobq_tests::broker::Broker;
use jobq_tests::stage::{Stage, Step, Store};

use crate::process::{eventually, jobq};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_is_named_and_nothing_is_done() {
    let Some(node) = Broker::to_kill("an_alarm_is_named_and_nothing_is_done").await else {
        return;
    };
    let mut stage = Stage::on(Store::on_broker(node.url())).await;
    let pool = stage.pool().spawn().await.unwrap();
    stage.enqueue([Step::Succeed]).await;
    stage.end().await;
    node.ctl(&["set_vm_memory_high_watermark", "0.00001"]).await;

    let alarm = "low on memory";
    // The alarm takes a moment to be heard all over the broker.
    eventually(&stage.store, &["workers"], |ran| ran.code == 5 && ran.err.contains(alarm)).await;
    for arguments in [&["pause", "scripted", "--why", "upgrade"][..], &["resume", "scripted"]] {
        let ran = jobq(&stage.store, arguments).await;
        let error = ran.error(5);
        assert!(error.contains(alarm) && error.contains("rabbitmq-diagnostics alarms"), "{ran:#?}");
    }
    let ran = jobq(&stage.store, &["queues", "scripted"]).await;
    let row: Vec<_> = ran.lines(0)[1].split_whitespace().collect();
    assert_eq!(row, ["scripted", "?", "?", "?", "?", "?", "?", "?", "unknown"], "{ran:#?}");
    assert!(ran.err.contains(alarm), "{ran:#?}");
    let ran = jobq(&stage.store, &["check", "scripted", "--failed-max", "0"]).await;
    let said = "scripted: failed: expected at most 0, found unknown (";
    assert!(ran.lines(1)[0].starts_with(said) && ran.out.contains(alarm), "{ran:#?}");

    node.ctl(&["set_vm_memory_high_watermark", "0.9"]).await;
    let ends = |state| move |ran: &crate::process::Ran| ran.out.trim_end().ends_with(state);
    eventually(&stage.store, &["queues", "scripted"], ends("consumed")).await;
    pool.shutdown().await.unwrap();
}
