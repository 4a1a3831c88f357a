//! Seats in a file that several engines share.

use std::time::Duration;

use jobq::engine::conformance::{EngineExt as _, open, soon};
use jobq::engine::{Engine, QueueSpec, Seat, SeatValue};
use jobq_tests::files::{Directory, NEWEST_SCHEMA, make_job_file};
use jobq_tests::jobs::{job, ready};

async fn take(engine: &dyn Engine) -> Box<dyn Seat> {
    let seats = engine.seats().expect("it has seats");
    soon("a seat", seats.take("mail")).await.expect("takes")
}

/// An engine whose lease has run out, as after a long suspension, finds that it has lost its seat, and
/// writes nothing any more. Its jobs are those of the holder that followed it.
#[tokio::test]
async fn a_seat_ends_with_the_lease_of_its_engine() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let (first, second) = (open(&url, "jobq").await.unwrap(), open(&url, "jobq").await.unwrap());
    ready(&*first, "mail").await;
    let mut lost = take(&*first).await;
    lost.advance(vec![job("mail")], b"1".to_vec()).await.unwrap();
    let waiting = second.seats().unwrap();
    let mut waiting = waiting.take("mail");
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");

    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    file.execute("DELETE FROM owners WHERE id = (SELECT owner FROM seats)", []).unwrap();
    let mut seat = soon("the seat of a dead engine", waiting).await.unwrap();
    assert_eq!(seat.value().position, b"1");
    assert!(lost.write_list(b"late".to_vec()).await.is_err_and(|error| error.is_stale()));
    let advanced = lost.advance(vec![job("mail")], b"late".to_vec()).await;
    assert!(advanced.is_err_and(|error| error.is_stale()));
    assert!(lost.next_change().await.is_err_and(|error| error.is_stale()));
    // Neither does its end free the seat of the next one.
    lost.leave().await;
    seat.advance(vec![job("mail")], b"2".to_vec()).await.unwrap();
    assert_eq!(first.admin().counts("mail").await.unwrap().ready, 2);
    for engine in [first, second] {
        engine.close().await;
    }
}

/// A queue that is deleted has no seat any more, in a file with seats and in one of the schema before.
#[tokio::test]
async fn a_seat_ends_with_its_queue() {
    for schema in [NEWEST_SCHEMA - 1, NEWEST_SCHEMA] {
        let directory = Directory::new();
        make_job_file(&directory.file("jobs.db"), schema);
        let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
        let seats = engine.seats().unwrap();
        if schema == NEWEST_SCHEMA {
            let mut seat = take(&*engine).await;
            seats.change("mail", b"a".to_vec()).await.unwrap();
            seat.write_list(b"list".to_vec()).await.unwrap();
            seat.leave().await;
        }
        engine.admin().delete(&QueueSpec::new("mail"), true).await.unwrap();
        ready(&*engine, "mail").await;
        let mut seat = take(&*engine).await;
        assert_eq!(*seat.value(), SeatValue::default());
        let change = tokio::time::timeout(Duration::from_millis(200), seat.next_change()).await;
        assert!(change.is_err(), "{change:?}");
        engine.close().await;
    }
}
