use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::admin::control::Control;
use super::super::admin::pools::Pools;
use super::super::admin::{failed, pauses, queues};
use super::super::inbox::{Act, Claim};
use super::super::lane::Lane;
use super::super::{deliveries, push};
use super::*;
use crate::clock::Clock;
use crate::engine::{Consume, Counts, Pause, QueueName, Settlement, Verdict};
use crate::error::ErrorKind;
use crate::job::{Envelope, FailedReason};

/// An engine on a disk with room for this many more pages.
fn small_disk(more: i64) -> Inbox {
    let mut file = File::open(&Place::Memory, Duration::ZERO, &Clock::system(), true).unwrap();
    file.prepare(Need::Newest).unwrap();
    let connection = &file.connection;
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    connection.pragma_update_and_check(None, "max_page_count", pages + more, |_| Ok(())).unwrap();
    let (inbox, commands) = Inbox::new(true);
    let own = inbox.clone();
    std::thread::spawn(move || {
        let lease = Duration::from_secs(30);
        let pools = Arc::new(Pools::default());
        let control = Box::new(Control::new("jobq".to_owned(), own.clone(), pools));
        run(file, Place::Memory, "jobq".to_owned(), lease, (own, commands), control);
    });
    inbox
}

fn job(bytes: usize) -> Envelope {
    Envelope::new("mail", vec![b'x'; bytes])
}

async fn push(inbox: &Inbox, bytes: usize) -> crate::Result<()> {
    let job = job(bytes);
    let new = push::New::from(job);
    let push = inbox.call(move |store| push::insert(store, &new));
    push.await?
}

async fn counts(inbox: &Inbox) -> Counts {
    Counts::from_parts(&inbox.call(|store| queues::parts(store, "mail")).await.unwrap())
}

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit_and_nothing_else() {
    let inbox = small_disk(40);
    inbox.call(|store| store.declare("mail")).await.unwrap();
    push(&inbox, 10).await.unwrap();
    let error = push(&inbox, 1_000_000).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("no space left on its disk"), "{error}");
    assert!(!error.maybe_enqueued());
    push(&inbox, 10).await.unwrap();
    let counts = counts(&inbox).await;
    assert_eq!(counts.ready, 2);
    inbox.send(Command::Close(None)).unwrap();
}

/// Jobs that fit are stored, in several transactions, and the others are reported by position.
#[tokio::test]
async fn of_many_jobs_those_that_fit_are_stored() {
    const JOBS: usize = 6_000;
    // There is room for two thousand jobs, and not for three thousand.
    let inbox = small_disk(200);
    inbox.call(|store| store.declare("mail")).await.unwrap();
    let not_pushed = push::insert_all(&inbox, &mut (0..JOBS).map(|_| job(200))).await;
    let places: Vec<_> = not_pushed.iter().map(|(place, _)| *place).collect();
    assert!(places.is_sorted_by(|one, next| one < next) && places[0] > 0, "{places:?}");
    for (_, error) in not_pushed {
        assert!(error.is_refused() && !error.maybe_enqueued(), "{error:?}");
    }
    let counts = counts(&inbox).await;
    assert_eq!(counts.ready, (JOBS - places.len()) as u64);
    inbox.send(Command::Close(None)).unwrap();
}

#[tokio::test]
async fn a_settlement_that_cannot_be_written_releases_the_job() {
    let inbox = small_disk(40);
    inbox.call(|store| store.declare("mail")).await.unwrap();
    push(&inbox, 10).await.unwrap();
    let queue = inbox.call(|store| store.queue("mail")).await.unwrap().unwrap();
    let what = Consume::new(QueueName::new("mail").unwrap(), 1);
    let mut consumer = deliveries::start(&inbox, (queue, vec![Lane::Normal], None), &what).unwrap();
    let delivery = consumer.next().await.unwrap().unwrap();
    // Fill the disk, so that the failed job with its long error does not fit.
    while push(&inbox, 3_000).await.is_ok() {}
    let error = "x".repeat(8_000);
    let fail = Settlement::Fail { reason: FailedReason::Aborted, error, attempts: 1 };
    let refused = delivery.settle(fail).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused:?}");
    // Once there is room it is delivered again: the last ones are deleted here.
    let free = |store: &mut Store<'_>| {
        store.connection.execute("DELETE FROM jobs WHERE length(payload) > 10", [])
    };
    inbox.call(free).await.unwrap();
    let delivery = consumer.next().await.unwrap().unwrap();
    assert_eq!((delivery.envelope().payload.len(), delivery.attempt), (10, 1));
    let counts = counts(&inbox).await;
    assert_eq!(counts.failed, 0);
    inbox.send(Command::Close(None)).unwrap();
}

#[tokio::test]
async fn a_completed_job_that_another_owner_has_is_told_with_its_identity() {
    let inbox = small_disk(40);
    let declaring = inbox.call(|store| store.declare("mail"));
    declaring.await.unwrap();
    for name in [Some("welcome"), None] {
        let mut job = job(10);
        job.name = name.map(Into::into);
        job.attempts = 2;
        let id = job.id;
        let new = push::New::from(job);
        let pushed = inbox.call(move |store| {
            let pushed = push::insert(store, &new)?;
            let seq = store.connection.last_insert_rowid();
            let claim = Claim { seq, id, owner: 99, feed: 0 };
            let mut settling = Settling::new(claim, Act::Complete);
            settling.run(store)?;
            Ok((pushed, settling.lost))
        });
        let (pushed, lost) = pushed.await.unwrap();
        pushed.unwrap();
        let lost = lost.unwrap();
        assert_eq!((&*lost.job, lost.id, &*lost.queue), (name.unwrap_or("mail"), id, "mail"));
        assert_eq!(lost.attempt, 3);
    }
    inbox.send(Command::Close(None)).unwrap();
}

/// The engine does not act on what it has read in a transaction that failed.
#[tokio::test]
async fn a_pause_that_is_rolled_back_pauses_nothing() {
    let inbox = small_disk(40);
    inbox.call(|store| store.declare("mail")).await.unwrap();
    let queue = inbox.call(|store| store.queue("mail")).await.unwrap().unwrap();
    let what = Consume::new(QueueName::new("mail").unwrap(), 1);
    let mut consumer = deliveries::start(&inbox, (queue, vec![Lane::Normal], None), &what).unwrap();
    let told = consumer.pauses();
    let failing = inbox.call(|store| {
        pauses::pause(store, "mail", &Pause::default())?;
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    failing.await.unwrap_err();
    push(&inbox, 10).await.unwrap();
    consumer.next().await.unwrap().unwrap().settle(Settlement::Complete).await.unwrap();
    assert!(!told.has_changed().unwrap());
    inbox.call(|store| pauses::pause(store, "mail", &Pause::default())).await.unwrap();
    assert_eq!(*told.borrow(), Some(Pause::default()), "told before the caller is answered");
    inbox.send(Command::Close(None)).unwrap();
}

/// Another program may write any text and any number.
#[tokio::test]
async fn what_no_reader_expects_stops_nobody() {
    let inbox = small_disk(200);
    inbox.call(|store| store.declare("mail")).await.unwrap();
    let queue = inbox.call(|store| store.queue("mail")).await.unwrap().unwrap();
    push(&inbox, 10).await.unwrap();
    push(&inbox, 20).await.unwrap();
    let forge = |store: &mut Store<'_>| {
        store.connection.execute_batch(
            "UPDATE jobs SET name = CAST(x'e4' AS TEXT), enqueued_by = CAST(x'e4' AS TEXT),
                headers = CAST(x'7be4' AS TEXT), content_encoding = CAST(x'e4' AS TEXT),
                attempts = 9223372036854775807, crashes = 9223372036854775807
                WHERE length(payload) = 10;
            INSERT INTO pauses (namespace, queue, why) VALUES
                ('jobq', CAST(x'e4' AS TEXT), CAST(x'e4' AS TEXT));
            INSERT INTO owners (until, process) VALUES (9223372036854775807, CAST(x'e4' AS TEXT));
            INSERT INTO subscriptions VALUES (1, CAST(x'e4' AS TEXT));
            INSERT INTO events (namespace, due, job_id, published_at, topic, payload) VALUES
                ('jobq', 0, randomblob(16), 0, CAST(x'e4' AS TEXT), x'31')",
        )
    };
    inbox.call(forge).await.unwrap();
    let what = Consume::new(QueueName::new("mail").unwrap(), 3);
    let mut consumer = deliveries::start(&inbox, (queue, vec![Lane::Normal], None), &what).unwrap();
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(consumer.next().await.unwrap().unwrap());
    }
    taken.sort_by_key(|delivery| delivery.envelope().payload.len());
    let [event, forged, sound] = taken.try_into().unwrap();
    assert_eq!(event.envelope().topic.as_deref(), Some("\u{fffd}"));
    assert_eq!(forged.envelope().name.as_deref(), Some("\u{fffd}"));
    assert_eq!((forged.attempt, forged.crashes), (u32::MAX, u32::MAX));
    forged.settle(Settlement::Retry(Duration::ZERO)).await.unwrap();
    let again = consumer.next().await.unwrap().unwrap();
    let fail =
        Settlement::Fail { reason: FailedReason::Aborted, error: String::new(), attempts: 1 };
    again.settle(fail).await.unwrap();
    for delivery in [sound, event] {
        delivery.settle(Settlement::Complete).await.unwrap();
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&seen);
    let forge = "UPDATE failed SET error = CAST(x'e4' AS TEXT), reason = CAST(x'e4' AS TEXT)";
    inbox.call(move |store| store.connection.execute_batch(forge)).await.unwrap();
    let visit = Box::new(move |_| {
        counting.fetch_add(1, Ordering::Relaxed);
        Verdict::Discard
    });
    failed::visit(inbox.clone(), "mail".to_owned(), visit).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    assert_eq!(counts(&inbox).await.failed, 0);
    inbox.send(Command::Close(None)).unwrap();
}
