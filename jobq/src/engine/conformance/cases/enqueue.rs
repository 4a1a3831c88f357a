//! Pushes of jobs and declarations of queues.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;

use crate::engine::conformance::bench::{Bench, ids, job, push, settle, soon, sorted};
use crate::engine::{QueueSpec, Settlement};
use crate::job::Envelope;

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Every field arrives as it was pushed, and the attempt follows the used-up ones.
pub async fn a_job_comes_back_as_it_was_pushed(bench: &Bench) {
    let wait = Duration::from_millis(1_500);
    let mut consumer = bench.consume("mail", &[wait], 1).await;
    let pushed = Envelope {
        name: Some("mail.welcome".into()),
        payload: "{\"to\":\"Änne\",\"n\":[1,2]}".into(),
        retry_wait: Some(wait),
        attempts: 2,
        expires_at: Some(bench.now() + Duration::from_millis(3_600_007)),
        ..bench.full_job()
    };
    let delivery = bench.pass(&mut consumer, &pushed).await;
    let found = delivery.envelope();
    assert_eq!(seconds(found.enqueued_at), seconds(pushed.enqueued_at));
    assert_eq!(*found, Envelope { enqueued_at: found.enqueued_at, ..pushed });
    settle(delivery, Settlement::Complete).await;
}

/// Fields that a job does not have are empty when it arrives.
pub async fn a_job_may_have_nothing_but_a_payload(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let pushed = Envelope { name: None, ..job("mail") };
    let delivery = bench.pass(&mut consumer, &pushed).await;
    let found = delivery.envelope();
    assert_eq!(*found, Envelope { enqueued_at: found.enqueued_at, ..pushed });
    settle(delivery, Settlement::Complete).await;
}

/// First in, first out, within a call and from call to call.
pub async fn due_jobs_come_in_the_order_in_which_they_were_pushed(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let mut pushed = bench.push_jobs("mail", 20).await;
    for _ in 0..10 {
        pushed.extend(bench.push_jobs("mail", 1).await);
    }
    let mut consumer = bench.consumer("mail", 4).await;
    for expected in pushed {
        consumer.complete(expected).await;
    }
}

/// All jobs of a large call are stored once.
pub async fn many_jobs_in_one_call_all_arrive_once(bench: &Bench) {
    let (mut consumer, pushed) = bench.consume_jobs(&[], 250, 2_000).await;
    let mut taken = Vec::new();
    while taken.len() < pushed.len() {
        let delivery = consumer.take().await;
        taken.push(delivery.envelope().id);
        settle(delivery, Settlement::Complete).await;
    }
    assert_eq!(sorted(taken), sorted(pushed));
    bench.counts("mail", 0, 0, 0).await;
}

/// Concurrent callers each get the answers for their own jobs.
pub async fn many_callers_at_once_all_get_their_answer(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 200).await;
    let pushed = join_all((0..64).map(|_| bench.push_jobs("mail", 3))).await.concat();
    let taken = consumer.take_many(pushed.len()).await;
    assert_eq!(sorted(ids(&taken)), sorted(pushed));
}

/// A large payload arrives unchanged.
pub async fn a_payload_of_a_mebibyte_arrives_unchanged(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    let text: String = ('a'..='z').cycle().take(1024 * 1024 - 2).collect();
    let pushed = Envelope { payload: format!("\"{text}\"").into_bytes(), ..job("mail") };
    bench.push(vec![pushed.clone()]).await;
    for _ in 0..2 {
        let delivery = consumer.take().await;
        let found = &delivery.envelope().payload;
        assert!(*found == pushed.payload, "{} bytes", found.len());
        settle(delivery, Settlement::Retry(Duration::ZERO)).await;
    }
}

/// An engine does not interpret payloads.
pub async fn a_payload_may_be_any_bytes_or_none(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 1).await;
    for payload in [vec![], vec![0], (0..=255).collect(), b"\xff\xfe no UTF-8".to_vec()] {
        let pushed = Envelope { payload, ..job("mail") };
        let delivery = bench.pass(&mut consumer, &pushed).await;
        assert_eq!(delivery.envelope().payload, pushed.payload);
        settle(delivery, Settlement::Complete).await;
    }
}

/// Each job of a call goes to the queue that it names.
pub async fn one_call_may_push_to_several_queues(bench: &Bench) {
    let mut mail = bench.consume("mail", &[], 10).await;
    let mut images = bench.consume("images.resize-2_x", &[], 10).await;
    let pushed = bench.push(["mail", "images.resize-2_x", "mail"].map(job).to_vec()).await;
    assert_eq!(ids(&mail.take_many(2).await), [pushed[0], pushed[2]]);
    let image = images.take().await;
    assert_eq!((image.envelope().id, &*image.envelope().queue), (pushed[1], "images.resize-2_x"));
}

/// An id is a label and need not be unique.
pub async fn one_id_pushed_twice_gives_two_jobs(bench: &Bench) {
    let mut consumer = bench.consume("mail", &[], 2).await;
    let twin = job("mail");
    bench.push(vec![twin.clone()]).await;
    bench.push(vec![twin.clone()]).await;
    let mut both = consumer.take_many(2).await;
    assert_eq!(ids(&both), [twin.id, twin.id]);
    // Settling one does not affect the other.
    settle(both.remove(0), Settlement::Complete).await;
    settle(both.remove(0), Settlement::Retry(Duration::ZERO)).await;
    consumer.take_attempt(twin.id, 2).await;
}

/// An existing queue keeps its jobs when waits are added.
pub async fn declaring_again_keeps_the_jobs(bench: &Bench) {
    let short = Duration::from_millis(50);
    bench.declare("mail", &[]).await;
    let pushed = bench.push_jobs("mail", 2).await;
    bench.declare("mail", &[]).await;
    bench.declare("mail", &[short, Duration::from_secs(600)]).await;

    let mut consumer = bench.consumer("mail", 2).await;
    let mut taken = consumer.take_many(2).await;
    assert_eq!(ids(&taken), pushed);
    settle(taken.remove(0), Settlement::Retry(short)).await;
    assert_eq!(consumer.take().await.envelope().id, pushed[0]);
}

/// Calls without queues or jobs succeed, and one call may declare several queues.
pub async fn nothing_to_do_is_done(bench: &Bench) {
    soon("no queues to be declared", bench.engine().declare(&[])).await.expect("declares");
    push(bench.engine(), vec![]).await;

    let two = ["a", "b"].map(QueueSpec::new);
    soon("two queues to be declared", bench.engine().declare(&two)).await.expect("declares");
    push(bench.engine(), vec![job("a"), job("b")]).await;
    bench.counts("a", 1, 0, 0).await;
    bench.counts("b", 1, 0, 0).await;
}
