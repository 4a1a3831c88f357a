//! `jobq failed`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobq::JobId;
use jobq::engine::conformance::{EngineExt as _, open};
use jobq::engine::{Envelope, Settlement, Verdict};
use jobq_tests::failures::fail;
use jobq_tests::test_store::{Step, Store, TestStore, soon, until};
use jobq_tests::{both_engines, on_a_file};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::process::Child;

use crate::process::{Ran, jobq, on};
use crate::schema;
use crate::terminal::Terminal;

both_engines!(an_export_has_every_byte_of_a_message);

// `the_page_holds_on_rabbitmq` runs these commands on a broker.
on_a_file!(
    failed_jobs_are_listed_in_pages,
    a_failed_job_is_shown,
    failed_jobs_are_grouped,
    failed_jobs_are_exported,
    what_matches_is_retried,
    what_is_deleted_is_confirmed,
    a_canary_that_fails_stops_the_rest,
    an_operation_is_cancelled,
);

/// A test whose queue has jobs that failed with these errors, and no pool.
async fn set_up(store: Store, errors: &[&str]) -> (TestStore, Vec<JobId>) {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    let mut ids = Vec::new();
    for error in errors {
        ids.push(test.enqueue([Step::Abort((*error).to_owned()), Step::Succeed]).await);
        have_failed(&test, ids.len() as u64).await;
    }
    pool.shutdown().await.unwrap();
    (test, ids)
}

/// Waits until so many jobs have failed.
async fn have_failed(test: &TestStore, jobs: u64) {
    until("the jobs to fail", async || {
        (test.client.counts("scripted").await.ok()?.failed == jobs).then_some(())
    })
    .await;
}

async fn failed(test: &TestStore, arguments: &[&str]) -> Ran {
    jobq(&test.store, &[&["failed"], arguments].concat()).await
}

async fn failed_jobs_are_listed_in_pages(store: Store) {
    let (test, ids) = set_up(store, &["first", "second", "third"]).await;
    let ran = failed(&test, &["list", "scripted", "--limit", "2", "--json"]).await;
    let page = ran.json(0, "failed-list");
    let found: Vec<_> = page["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!(found, [&ids[0].to_string(), &ids[1].to_string()]);
    let next = page["next"].as_str().unwrap();
    let ran = failed(&test, &["list", "scripted", "--after", next]).await;
    let lines = ran.lines(0);
    assert_eq!(lines.len(), 2, "{ran:#?}");
    assert!(lines[1].starts_with(&ids[2].to_string()) && lines[1].ends_with("third"), "{ran:#?}");
    let ran = failed(&test, &["list", "scripted", "--limit", "0"]).await;
    assert_eq!((ran.lines(0).len(), &*ran.err), (1, "0 of 3\n"), "{ran:#?}");

    let ran = failed(&test, &["list", "scripted", "--error", "second", "--json"]).await;
    let page = ran.json(0, "failed-list");
    assert_eq!((&page["matching"], &page["next"]), (&1.into(), &Value::Null));
    let ran = failed(&test, &["list", "scripted", "--job", "other"]).await;
    assert_eq!(ran.lines(0).len(), 1);
    assert_eq!(ran.err, "no failed job matches\n");
}

async fn a_failed_job_is_shown(store: Store) {
    let (test, ids) = set_up(store, &["the card is\x1b stolen"]).await;
    let id = ids[0].to_string();
    let ran = failed(&test, &["show", "scripted", &id]).await;
    assert!(ran.lines(0).contains(&"  the card is\\u{1b} stolen"), "{ran:#?}");
    let job = failed(&test, &["show", "scripted", &id, "--json"]).await.json(0, "failed-job");
    assert_eq!((&job["reason"], &job["attempts"]), (&"aborted".into(), &1.into()));
    assert_eq!(job["payload"]["steps"][1], "Succeed");
    let other = JobId::new().to_string();
    assert!(failed(&test, &["show", "scripted", &other]).await.error(4).contains(&other));
}

async fn failed_jobs_are_grouped(store: Store) {
    let errors = ["user 1: no card", "user 2: no card", "disk on fire", " tab\there, \x1b[31mred "];
    let (test, ids) = set_up(store, &errors).await;
    let document = failed(&test, &["groups", "scripted", "--json"]).await;
    let document = document.json(0, "failed-groups");
    let groups = document["groups"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["count"]), (3, &2.into()), "{document:#}");
    assert_eq!(groups[0]["error"], "user #: no card");
    assert_eq!(groups[0]["last"], ids[1].to_string());
    let ran = failed(&test, &["groups", "scripted"]).await;
    assert!(ran.lines(0)[1].ends_with("user #: no card"), "{ran:#?}");
    // Each text is taken as it is printed.
    let printed = |line: &str| line.split("ago").nth(1).unwrap().trim_start().to_owned();
    for (line, matching) in ran.lines(0)[1..].iter().zip([2, 1, 1]) {
        let arguments = ["list", "scripted", "--pattern", &printed(line), "--json"];
        let page = failed(&test, &arguments).await.json(0, "failed-list");
        assert_eq!(page["matching"], matching, "{line}");
    }
}

async fn failed_jobs_are_exported(store: Store) {
    let (test, ids) = set_up(store, &["first", "second"]).await;
    let ran = failed(&test, &["export", "scripted"]).await;
    let lines = ran.lines(0);
    assert_eq!(lines.len(), 2, "{ran:#?}");
    for (line, id) in lines.iter().zip(ids) {
        let job: Value = serde_json::from_str(line).unwrap();
        schema::check("failed-job", &job);
        assert_eq!(job["id"], id.to_string());
    }
    assert!(
        failed(&test, &["export", "nothing"])
            .await
            .error(4)
            .contains("queue `nothing` does not exist")
    );
}

/// The job of a line of an export, as docs/failed-jobs.md describes it.
fn imported(line: &str) -> Envelope {
    let exact: BTreeMap<&str, &RawValue> = serde_json::from_str(line).unwrap();
    let job: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| job[name].as_str().map(str::to_owned);
    let payload = match text("payload_base64") {
        Some(base64) => BASE64_STANDARD.decode(base64).unwrap(),
        None => exact["payload"].get().into(),
    };
    let mut envelope = Envelope::new(text("queue").unwrap(), payload);
    envelope.id = text("id").unwrap().parse().unwrap();
    envelope.name = text("name").filter(|name| !name.is_empty()).map(Into::into);
    envelope.content_encoding = text("content_encoding").map(Into::into);
    envelope.topic = text("topic");
    envelope.enqueued_by = text("enqueued_by").map(Into::into);
    envelope.enqueued_at = humantime::parse_rfc3339(&text("enqueued_at").unwrap()).unwrap();
    let headers = job["headers"].as_object().unwrap().iter();
    let header =
        |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap().to_owned());
    envelope.headers = headers.map(header).collect();
    envelope
}

async fn an_export_has_every_byte_of_a_message(store: Store) {
    let engine = open(&store.url, &store.namespace).await.unwrap();
    let payloads: [(&[u8], Option<&str>); 7] = [
        (b"{\"n\": 12345678901234567890123, \"x\": 1.10}", None),
        (b"{\n  \"n\": 1\r\n}\n", None),
        (b"no JSON", Some("utf-8")),
        (b"\xff\xfe\0\x80 no UTF-8", None),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", Some("gzip")),
        (b"{}", Some("gzip")),
        (b"", Some("br")),
    ];
    let job = |(payload, encoding): (&[u8], Option<&'static str>)| {
        let mut job = Envelope::new("mail", payload.to_vec());
        job.name = Some("greet".into());
        job.content_encoding = encoding.map(Into::into);
        job.enqueued_by = Some("shop-web".into());
        job.topic = Some("user.created".into());
        // RabbitMQ keeps whole seconds.
        job.enqueued_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let kept = [("jobq-needs", "zip"), ("jobq-nonce", "7"), ("tenant", "a\nb")];
        job.headers =
            kept.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        job
    };
    let jobs: Vec<_> = payloads.map(job).into();
    fail(&*engine, "mail", jobs.iter().cloned()).await;
    let exported = jobq(&store, &["failed", "export", "mail"]).await;
    let lines = exported.lines(0);
    let id = jobs[3].id.to_string();
    for line in &lines {
        schema::check("failed-job", &serde_json::from_str(line).unwrap());
    }
    let shown =
        jobq(&store, &["failed", "show", "mail", &id, "--json"]).await.json(0, "failed-job");
    let listed = jobq(&store, &["failed", "list", "mail", "--json"]).await.json(0, "failed-list");
    assert!(shown["payload"].is_null(), "{shown:#}");
    assert!(listed["jobs"].as_array().unwrap().contains(&without_version(&shown)), "{listed:#}");
    let shown = jobq(&store, &["failed", "show", "mail", &id]).await;
    assert!(shown.out.contains("bytes that are no UTF-8"), "{shown:#?}");

    jobq(&store, &["failed", "discard", "mail", "--all", "--yes"]).await.lines(0);
    let again = engine.push_all(&mut lines.iter().map(|line| imported(line))).await;
    assert!(again.is_empty(), "{again:?}");
    let mut consumer = engine.consume_from("mail", 10).await.unwrap();
    let mut found = Vec::new();
    for _ in &jobs {
        let delivery = soon("a job", consumer.next()).await.unwrap().unwrap();
        found.push(delivery.envelope().clone());
        delivery.settle(Settlement::Complete).await.unwrap();
    }
    let sorted = |mut jobs: Vec<Envelope>| {
        jobs.sort_by_key(|job| job.id);
        jobs
    };
    assert_eq!(sorted(found), sorted(jobs));
}

/// A job of a list has no version of its own.
fn without_version(job: &Value) -> Value {
    let mut job = job.clone();
    job.as_object_mut().unwrap().remove("v");
    job
}

async fn what_matches_is_retried(store: Store) {
    let (test, ids) = set_up(store, &["bank is down", "bank is down", "no card"]).await;
    let arguments = ["retry", "scripted", "--error", "bank", "--dry-run", "--json"];
    let done = failed(&test, &arguments).await.json(0, "failed-operation");
    assert_eq!((&done["matched"], &done["settled"]), (&2.into(), &0.into()));

    let arguments = ["retry", "scripted", "--error", "bank", "--rate", "100/s", "--json"];
    let done = failed(&test, &arguments).await.json(0, "failed-operation");
    assert_eq!((&done["matched"], &done["settled"]), (&2.into(), &2.into()));
    assert_eq!(done["end"]["kind"], "finished");
    let ran = failed(&test, &["retry", "scripted", &ids[2].to_string()]).await;
    assert_eq!(ran.lines(0), ["1 of 1 failed jobs of queue scripted retried"]);
    // What matches nothing is done; a job that is named and not there is an error.
    let ran = failed(&test, &["retry", "scripted", "--error", "bank"]).await;
    assert_eq!(ran.lines(0), ["0 of 0 failed jobs of queue scripted retried"]);
    let ran = failed(&test, &["retry", "scripted", &ids[2].to_string()]).await;
    ran.lines(4);
    assert!(ran.err.contains("no such failed job"), "{ran:#?}");

    let ran = failed(&test, &["retry", "scripted"]).await;
    assert!(ran.error(2).contains("--all"), "{ran:#?}");
    assert_eq!(test.client.counts("scripted").await.unwrap().ready, 3);
}

#[tokio::test]
async fn a_terminal_shows_the_progress_of_an_operation() {
    let (test, _) = set_up(Store::sqlite().await, &["first", "second"]).await;
    let retry = ["failed", "retry", "scripted", "--all", "--rate", "1/s"];
    let arguments = [&retry[..], &["--namespace", &test.store.namespace]].concat();
    let terminal = Terminal::start(&test.store.url, &arguments);
    terminal.shows_text("1 done, 1 match so far, waiting because of the rate").await;
    let ended = terminal.shows_text("ended with 0").await;
    assert!(ended.contains("2 of 2 failed jobs of queue scripted retried"), "{ended}");
}

async fn what_is_deleted_is_confirmed(store: Store) {
    let (test, ids) = set_up(store, &["one", "two", "three"]).await;
    let id = ids[0].to_string();
    let ran = failed(&test, &["discard", "scripted", &id]).await;
    assert!(ran.error(2).contains("--yes") && ran.err.contains("delete 1 failed jobs"), "{ran:#?}");
    assert_eq!(test.client.counts("scripted").await.unwrap().failed, 3);
    let ran = failed(&test, &["discard", "scripted", &id, "--yes"]).await;
    assert_eq!(ran.lines(0), ["1 of 1 failed jobs of queue scripted deleted"]);
    let ran = failed(&test, &["discard", "scripted", &id, &ids[1].to_string(), "--dry-run"]).await;
    assert_eq!(ran.lines(3), ["1 failed jobs of queue scripted would be deleted"]);
    assert!(ran.err.contains("no failed jobs with 1 of the ids"), "{ran:#?}");
    let ran = failed(&test, &["purge", "scripted", "--dry-run"]).await;
    assert_eq!(ran.lines(0), ["2 failed jobs of queue scripted would be deleted"]);
    let ran = failed(&test, &["purge", "scripted", "--yes", "--json"]).await;
    assert_eq!(ran.json(0, "failed-operation")["settled"], 2);
    assert_eq!(test.client.counts("scripted").await.unwrap().failed, 0);
    // Nothing would be deleted, so nobody is asked.
    let ran = failed(&test, &["purge", "scripted"]).await;
    assert_eq!(ran.lines(0), ["0 of 0 failed jobs of queue scripted deleted"]);
    let ran = failed(&test, &["discard", "scripted", &id, "--json"]).await;
    assert_eq!(ran.json(4, "failed-operation")["settled"], 0);
}

async fn a_canary_that_fails_stops_the_rest(store: Store) {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    for _ in 0..3 {
        test.enqueue([Step::Abort("no".into())]).await;
    }
    have_failed(&test, 3).await;
    let arguments = ["retry", "scripted", "--all", "--canary", "1", "--json"];
    let ran = failed(&test, &arguments).await;
    let done = ran.json(3, "failed-operation");
    assert_eq!((&done["settled"], &done["end"]["kind"]), (&1.into(), &"stopped".into()));
    assert!(ran.err.contains("these canaries failed"), "{ran:#?}");
    pool.shutdown().await.unwrap();
    // Nobody would tell the outcome.
    let ran = failed(&test, &["retry", "scripted", "--all", "--canary", "1"]).await;
    assert!(!ran.error(5).is_empty());
}

async fn an_operation_is_cancelled(store: Store) {
    let (test, _) = set_up(store, &["one", "two"]).await;
    // The second one would follow in a hundred seconds.
    let arguments = ["failed", "retry", "scripted", "--all", "--rate", "0.01/s", "--json"];
    let mut command = on(&test.store, &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the first job to be retried", async || {
        (test.client.counts("scripted").await.ok()?.ready == 1).then_some(())
    })
    .await;
    interrupt(&child);
    let output = jobq_tests::test_store::soon("the end", child.wait_with_output()).await.unwrap();
    let ran = Ran::from(output);
    let done = ran.json(3, "failed-operation");
    assert_eq!((&done["settled"], &done["end"]["kind"]), (&1.into(), &"cancelled".into()));
    assert!(ran.err.contains("the operation was cancelled"), "{ran:#?}");
}

/// Sends a process Ctrl-C.
fn interrupt(child: &Child) {
    let pid = child.id().unwrap().to_string();
    let status = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(status.success());
}

/// Whether a process handles Ctrl-C.
fn hears_interrupts(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
    u64::from_str_radix(caught, 16).unwrap() & 0b10 != 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_interrupt_ends_an_operation_that_waits() {
    let (test, _) = set_up(Store::rabbitmq().await, &["one"]).await;
    // Somebody looks at the failed jobs, and does not end.
    let engine = open(&test.store.url, &test.store.namespace).await.unwrap();
    let (looks, mut looked) = tokio::sync::mpsc::unbounded_channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let looking = tokio::spawn(async move {
        let visit = move |_| {
            let _ = looks.send(());
            let _ = ended.recv();
            Verdict::Keep
        };
        engine.admin().failed_visit("scripted", Box::new(visit)).await
    });
    jobq_tests::test_store::soon("a look", looked.recv()).await.unwrap();
    let mut command = on(&test.store, &["failed", "retry", "scripted", "--all"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command to hear", async || hears_interrupts(&child).then_some(())).await;
    // The first one cancels it, and it goes on to wait for its turn.
    until("the end of the command", async || {
        let is_over = child.try_wait().unwrap().is_some();
        (!is_over).then(|| interrupt(&child));
        is_over.then_some(())
    })
    .await;
    let ran = Ran::from(child.wait_with_output().await.unwrap());
    assert!(ran.error(3).contains("interrupted again"), "{ran:#?}");
    drop(end);
    looking.await.unwrap().unwrap();
    assert_eq!(test.client.counts("scripted").await.unwrap().failed, 1);
}
