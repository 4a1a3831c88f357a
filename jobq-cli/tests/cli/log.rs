//! The log of the command, on standard error.

use jobq_tests::on_a_file;
use jobq_tests::test_store::{Step, Store, TestStore, until};

use crate::process::{Ran, command, eventually, jobq, on, run};
use crate::server::Server;

on_a_file!(what_a_command_changes_is_logged, what_the_dashboard_changes_is_logged);

/// The lines of the audit.
fn audit(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("INFO jobq::audit: ")).collect()
}

async fn what_a_command_changes_is_logged(store: Store) {
    let mut test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    test.enqueue([Step::Abort("no card".into()), Step::Succeed]).await;
    test.failed("scripted").await;

    let why = "moving\nout \u{1b}[31m";
    let pause = ["pause", "scripted", "--why", why, "--by", "ann", "--json"];
    let paused = |ran: &Ran| ran.code == 0;
    let ran = eventually(&test.store, &pause, paused).await;
    ran.json(0, "pause");
    let [line] = audit(&ran.err)[..] else { panic!("{ran:#?}") };
    for part in [
        "queue paused",
        r#"actor="ann""#,
        r#"queue="scripted""#,
        "moving\\nout ",
        "is_finished=true",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!ran.err.contains('\u{1b}'), "{ran:#?}");

    // What only looks changes nothing.
    let ran = jobq(&test.store, &["queues", "scripted"]).await;
    assert!(ran.code == 0 && audit(&ran.err).is_empty(), "{ran:#?}");

    for filter in ["off", "jobq=warn", "error,jobq::audit=off"] {
        let ran = jobq(&test.store, &["resume", "scripted", "--log", filter]).await;
        assert!(ran.code == 0 && audit(&ran.err).is_empty(), "{filter}: {ran:#?}");
    }
    let mut resume = on(&test.store, &["resume", "scripted"]);
    resume.env("JOBQ_LOG", "off");
    assert_eq!(audit(&run(resume).await.err), [""; 0]);
    let mut resume = on(&test.store, &["resume", "scripted", "--by", "bob"]);
    resume.env("JOBQ_LOG", "");
    let ran = run(resume).await;
    assert!(ran.err.contains(r#"queue resumed actor="bob""#), "{ran:#?}");

    let ran =
        jobq(&test.store, &["failed", "retry", "scripted", "--all", "--by", "ann", "--yes"]).await;
    let [line] = audit(&ran.err)[..] else { panic!("{ran:#?}") };
    assert!(line.contains("failed jobs settled") && line.contains("count=1"), "{ran:#?}");
    test.end().await;
    pool.shutdown().await.unwrap();

    let ran = run(command(&["queues", "--log", "jobq=loud"])).await;
    assert!(ran.error(2).contains("jobq=warn,jobq::audit=info"), "{ran:#?}");
}

async fn what_the_dashboard_changes_is_logged(store: Store) {
    let test = TestStore::on(store).await;
    test.enqueue([Step::Succeed]).await;
    let mut server = Server::start(&test.store, &["--by", "ann"]).await;
    let quiet = Server::start(&test.store, &["--log", "off"]).await;
    until("the queue to be paused", async || {
        let answer = server.post("/queues/scripted/pause", "why=moving").await;
        answer.starts_with("HTTP/1.0 303").then_some(())
    })
    .await;
    let line = server.next_line().await;
    for part in [" INFO jobq::audit: queue paused", r#"actor="ann""#, r#"why="moving""#] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(quiet.post("/queues/scripted/resume", "").await.starts_with("HTTP/1.0 303"));
    assert_eq!(quiet.rest().await, "");
}
