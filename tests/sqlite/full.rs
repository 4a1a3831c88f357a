//! A disk that is full, and then is not any more.

use jobq::engine::conformance::EngineExt as _;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jobq::ErrorKind;
use jobq::engine::Settlement;
use jobq::engine::conformance::{eventually, open, open_with_lease, soon};
use jobq_tests::files::SmallDisk;
use jobq_tests::jobs::{job, push, ready};

use super::places::{assert_says, refusal};
use super::{LEASE, LONG, take};

const SIZE: u32 = 4 * 1024 * 1024;
/// What will be free again.
const BALLAST: usize = 2_500_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_full_disk_refuses_is_told_and_all_else_goes_on_when_there_is_space() {
    let test = "what_a_full_disk_refuses_is_told";
    let Some(disk) = SmallDisk::mount(test, SIZE) else {
        return;
    };
    let path = disk.directory().file("jobs.db").display().to_string();
    let ballast = disk.directory().file("ballast");
    std::fs::write(&ballast, vec![0; BALLAST]).unwrap();
    let engine = open(&disk.directory().url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let mut consumer = engine.consume_from("mail", 2).await.unwrap();
    let mut accepted: BTreeSet<_> = push(&*engine, "mail", 2).await.into_iter().collect();
    let (done, retried) = (take(&mut consumer).await, take(&mut consumer).await);
    let retried_id = retried.envelope().id;

    let fragments = ["has no space left on its disk", "free disk space", &path];
    // What a large job was refused may be enough for small ones.
    for size in [20_000, 1] {
        let error = loop {
            let mut job = job("mail");
            job.payload = format!("\"{}\"", "x".repeat(size)).into_bytes();
            let id = job.id;
            match soon("an answer", engine.push(job)).await {
                Ok(_) => assert!(accepted.insert(id)),
                Err(error) => break error,
            }
            assert!(accepted.len() < 1_000, "the disk is not full");
        };
        assert_says(&error, ErrorKind::Refused, &fragments);
        assert!(!error.maybe_enqueued(), "it is not there");
        disk.fill("rest");
    }
    assert_eq!(engine.admin().counts("mail").await.unwrap().ready, accepted.len() as u64 - 2);

    // What cannot be recorded: a completion is kept until it can, all else is told.
    accepted.remove(&done.envelope().id);
    done.settle(Settlement::Complete).await.unwrap();
    let retry = retried.settle(Settlement::Retry(Duration::ZERO));
    let error = soon("an answer", retry).await.unwrap_err();
    assert_says(&error, ErrorKind::Refused, &fragments);
    // A file that is not there yet.
    let new = disk.directory().file("new.db");
    assert_says(&refusal(&new).await, ErrorKind::Refused, &["no space left on its disk"]);

    std::fs::remove_file(ballast).unwrap();
    let _ = std::fs::remove_file(new);
    let mut seen = BTreeSet::new();
    while seen.len() < accepted.len() {
        let delivery = take(&mut consumer).await;
        assert_eq!(delivery.attempt, 1);
        assert!(seen.insert(delivery.envelope().id), "none comes twice");
        soon("a settlement", delivery.settle(Settlement::Complete)).await.unwrap();
    }
    assert!(seen == accepted && seen.contains(&retried_id));
    push(&*engine, "mail", 1).await;
    take(&mut consumer).await.settle(Settlement::Complete).await.unwrap();
    eventually("jobs", (0, 0), || async {
        let counts = engine.admin().counts("mail").await.unwrap();
        (*counts.ready.known().unwrap(), *counts.waiting.known().unwrap())
    })
    .await;
    engine.close().await;
}

/// Nobody can renew a lease then, so nobody loses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_cannot_write_keep_their_jobs() {
    let test = "engines_that_cannot_write_keep_their_jobs";
    let Some(disk) = SmallDisk::mount(test, SIZE) else {
        return;
    };
    let ballast = disk.directory().file("ballast");
    std::fs::write(&ballast, vec![0; BALLAST]).unwrap();
    let url = disk.directory().url("jobs.db");
    let (one, other) =
        tokio::join!(open_with_lease(&url, "jobq", LEASE), open_with_lease(&url, "jobq", LEASE));
    let (one, other) = (one.unwrap(), other.unwrap());
    ready(&*one, "mail").await;
    push(&*one, "mail", 2).await;
    let (mut first, mut second) =
        (one.consume_from("mail", 1).await.unwrap(), other.consume_from("mail", 1).await.unwrap());
    let held = [take(&mut first).await, take(&mut second).await];
    disk.fill("rest");
    // For as long as makes an engine dead that does not renew.
    let full = Instant::now();
    while full.elapsed() < 3 * LEASE {
        let mut job = job("mail");
        job.payload = vec![b'1'; 100_000];
        for engine in [&one, &other] {
            soon("an answer", engine.push(job.clone())).await.unwrap_err();
        }
        tokio::time::sleep(LEASE / 20).await;
    }
    std::fs::remove_file(ballast).unwrap();
    for delivery in held {
        eventually("room on the disk", true, || async {
            soon("an answer", one.admin().counts("mail")).await.is_ok()
        })
        .await;
        soon("a settlement", delivery.settle(Settlement::Retry(LONG))).await.unwrap();
    }
    assert_eq!(one.admin().counts("mail").await.unwrap().waiting, 2);
}
