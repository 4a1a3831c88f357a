//! `jobq watch` in a terminal, and its documents.

use std::process::Stdio;

use jobq_tests::broker::Broker;
use jobq_tests::test_store::{Step, Store, TestStore, soon, until};
use jobq_tests::{both_engines, on_a_file};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::process::{jobq, on};
use crate::schema;
use crate::terminal::Terminal;

both_engines!(looks_are_documents);

on_a_file!(off_a_terminal_it_is_an_error);

async fn looks_are_documents(store: Store) {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let arguments = ["watch", "scripted", "--json", "--interval", "10ms"];
    let mut child = on(&test.store, &arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    until("a look with the pool", async || {
        let line = soon("the next look", lines.next_line()).await.unwrap().unwrap();
        let look: Value = serde_json::from_str(&line).unwrap();
        schema::check("watch", &look);
        (look["pools"][0]["host"].is_string() && look["overview"]["queues"][0]["pools"] == 1)
            .then_some(())
    })
    .await;
    // Whoever reads no more ends it.
    drop(lines);
    assert_eq!(soon("the end", child.wait()).await.unwrap().code(), Some(0));
    pool.shutdown().await.unwrap();
}

async fn off_a_terminal_it_is_an_error(store: Store) {
    store.client().await.close().await;
    let ran = jobq(&store, &["watch"]).await;
    assert!(ran.error(2).contains("--json"), "{ran:#?}");
    let ran = jobq(&store, &["watch", "--json", "--interval", "0s"]).await;
    assert!(ran.error(2).contains("must not be zero"), "{ran:#?}");
}

/// What fits any machine: pages, a pause and its end, groups, and a question with both answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_turn_pages_and_do_things() {
    let mut test = TestStore::on(Store::sqlite().await).await;
    let pool = test.pool().spawn().await.unwrap();
    let failing = [Step::Abort("user 7: no card".into()), Step::Succeed];
    test.enqueue(failing).await;
    test.run().await;
    test.failed("scripted").await;

    let namespace = test.store.namespace.clone();
    let arguments = ["watch", "--interval", "100ms", "--by", "ann", "--namespace", &namespace];
    let terminal = Terminal::start(&test.store.url, &arguments);
    terminal.shows_text("consumed").await;
    // The second of two queues.
    terminal.press(&["j"]);
    terminal.shows_text("attempts of the last minute: p50").await;
    terminal.press(&["p"]);
    terminal.shows_text("by ann: paused in `jobq watch`").await;
    // Its message would otherwise come later, and hide the keys of another page.
    terminal.shows_text("queue scripted is paused").await;
    terminal.press(&["r"]);
    terminal.shows("that it is resumed", |screen| screen.matches("consumed").count() == 2).await;

    terminal.press(&["Enter"]);
    terminal.shows_text("user #: no card").await;
    terminal.press(&["R"]);
    terminal.shows_text("retry 1 failed jobs of `scripted`").await;
    terminal.press(&["n"]);
    terminal.shows_text("l look again").await;
    assert_eq!(test.client.counts("scripted").await.unwrap().failed, 1);
    terminal.press(&["R", "y"]);
    terminal.shows_text("retried: 1 of 1 failed jobs").await;
    test.end().await;

    terminal.press(&["3"]);
    terminal.shows_text(&std::process::id().to_string()).await;
    terminal.press(&["4"]);
    terminal.shows_text("SEVERITY").await;
    terminal.press(&["q"]);
    let left = terminal.shows_text("ended with 0").await;
    // What was changed is logged when the page is gone.
    let logged = left.replace('\n', "");
    assert!(logged.contains("jobq::audit: queue paused actor=\"ann\""), "{left}");
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_may_die_and_come_back() {
    let Some(broker) = Broker::to_kill("watch::a_broker_may_die_and_come_back").await else {
        return;
    };
    let test = TestStore::on(Store::on_broker(broker.url())).await;
    test.enqueue([Step::Succeed]).await;
    let namespace = test.store.namespace.clone();
    let arguments = ["watch", "scripted", "--interval", "100ms", "--timeout", "1s"];
    let terminal =
        Terminal::start(&test.store.url, &[&arguments[..], &["--namespace", &namespace]].concat());
    terminal.shows_text("unattended").await;
    broker.kill();
    // Unknown is not 0, and the reason is below the table.
    let is_lost = |screen: &str| screen.contains("unknown") && screen.contains("? READY");
    terminal.shows("that the broker is gone", is_lost).await;
    broker.restart().await;
    terminal.shows_text("unattended").await;
    terminal.press(&["C-c"]);
    terminal.shows_text("ended with 0").await;
}

/// A terminal in raw mode takes no line, since Enter does not end one.
#[tokio::test]
async fn a_signal_leaves_a_terminal_that_works() {
    let test = TestStore::on(Store::sqlite().await).await;
    test.enqueue([Step::Succeed]).await;
    let namespace = test.store.namespace.clone();
    for signal in ["TERM", "HUP", "INT"] {
        let terminal = Terminal::start(&test.store.url, &["watch", "--namespace", &namespace]);
        terminal.shows_text("unattended").await;
        terminal.signal(signal);
        let is_restored =
            |screen: &str| screen.contains("ended with 0") && !screen.contains("unattended");
        terminal.shows("the screen from before", is_restored).await;
        terminal.press(&["echo shell-$((6 * 7))", "Enter"]);
        terminal.shows_text("shell-42").await;
    }
}
