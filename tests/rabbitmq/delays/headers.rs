//! What a job carries with it while it waits again and again.

use jobq::engine::conformance::EngineExt as _;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use jobq::engine::conformance::soon;
use jobq::engine::{Envelope, QueueSpec, Settlement};
use jobq_tests::broker;
use jobq_tests::jobs::reports_runs::millis;
use jobq_tests::jobs::{self, with};
use jobq_tests::raw::{Raw, header};
use jobq_tests::test_store::until;
use lapin::BasicProperties;
use lapin::options::{BasicGetOptions, QueueBindOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable, generation};

const TIER: Duration = millis(100);
const RETRIES: u32 = 50;

/// The bytes of a message's headers.
fn size(properties: &BasicProperties) -> usize {
    let table = properties.headers().clone().unwrap_or_default();
    generation::gen_field_table(&table)(Vec::new().into()).unwrap().write.len()
}

/// The queues that a message died in, each for one reason.
fn deaths(properties: &BasicProperties) -> usize {
    let deaths = header(properties, "x-death").and_then(AMQPValue::as_array);
    deaths.map_or(0, |deaths| deaths.as_slice().len())
}

/// A queue beside the work queue, that gets a copy of all that comes into that.
async fn tap(raw: &Raw, namespace: &str) -> String {
    let tap = format!("{namespace}.tap");
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let declared =
        raw.channel.queue_declare(tap.as_str().into(), options, FieldTable::default()).await;
    declared.unwrap();
    let keys = ["", ".deliver"].into_iter().flat_map(|to| [(to, "mail"), (to, "mail@100")]);
    for (exchange, key) in keys {
        let (exchange, options) = (format!("{namespace}{exchange}"), QueueBindOptions::default());
        let (tap, exchange, none) = (tap.as_str().into(), exchange.into(), FieldTable::default());
        raw.channel.queue_bind(tap, exchange, key.into(), options, none).await.unwrap();
    }
    tap
}

/// The bytes of the headers, and the deaths, that each job came with, time after time.
async fn taken(raw: &Raw, tap: &str, count: usize) -> HashMap<String, Vec<(usize, usize)>> {
    let mut taken = HashMap::<_, Vec<_>>::new();
    for _ in 0..count {
        let message = until("a copy", || async {
            let options = BasicGetOptions { no_ack: true };
            raw.channel.basic_get(tap.into(), options).await.unwrap()
        })
        .await;
        let properties = &message.delivery.properties;
        let id = properties.message_id().as_ref().unwrap().as_str().to_owned();
        taken.entry(id).or_default().push((size(properties), deaths(properties)));
    }
    taken
}

fn job(delay: Duration) -> Envelope {
    with(jobs::job("mail"), |job| (job.delay, job.retry_wait) = (delay, Some(TIER)))
}

/// What becomes of each job after its run of this number, from 0.
fn rounds() -> [fn(u32) -> Settlement; 3] {
    [
        // The broker alone.
        |_| Settlement::Retry(TIER),
        // Always the levels; once through three of them.
        |round| match round {
            30 => Settlement::Retry(millis(7_300)),
            _ => Settlement::Retry(millis(20 + u64::from(round) * 7)),
        },
        // Each third round is the broker's, and each seventh uses no attempt.
        |round| match round {
            _ if round % 7 == 1 => Settlement::Snooze(millis(50)),
            _ if round % 3 == 0 => Settlement::Retry(TIER),
            _ => Settlement::Retry(millis(u64::from(round % 12) * 90)),
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_stay_small_and_attempts_right_however_often_a_job_waits() {
    let (url, namespace) = (broker::shared().await, broker::namespace());
    let engine = jobq::engine::conformance::open(&url, &namespace).await.unwrap();
    let spec = QueueSpec::new("mail").waits([TIER]);
    engine.declare(&[spec]).await.unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    engine.declare_delays(Duration::MAX).await.unwrap();
    let raw = Raw::connect(&url).await;
    let tap = tap(&raw, &namespace).await;

    let jobs = [millis(0), millis(150), TIER].map(job);
    let mut states: HashMap<_, _> =
        jobs.iter().zip(rounds()).map(|(job, round)| (job.id, (round, 0, 1))).collect();
    let not_pushed = engine.push_all(&mut jobs.iter().cloned()).await;
    assert!(not_pushed.is_empty(), "{not_pushed:?}");
    let (mut count, mut left) = (0, states.len());
    while left > 0 {
        let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
        count += 1;
        let (settlement, round, attempt) = states.get_mut(&delivery.envelope().id).unwrap();
        assert_eq!(delivery.attempt, *attempt, "round {round}");
        let settlement = if *attempt > RETRIES {
            left -= 1;
            Settlement::Complete
        } else {
            settlement(*round)
        };
        *round += 1;
        *attempt += u32::from(matches!(settlement, Settlement::Retry(_)));
        delivery.settle(settlement).await.unwrap();
    }
    let taken = taken(&raw, &tap, count).await;
    assert_eq!(taken.len(), 3);
    for job in jobs {
        let (_, rounds, _) = states[&job.id];
        let taken = &taken[&job.id.to_string()];
        assert_eq!(u32::try_from(taken.len()).unwrap(), rounds);
        let size = taken.iter().map(|(size, _)| *size).max().unwrap();
        let deaths = taken.iter().map(|(_, deaths)| *deaths).max().unwrap();
        let found =
            format!("{rounds} rounds: {size} bytes of headers, {deaths} entries in x-death");
        println!("{found}");
        // One entry for each level or tier that it came through since it was last published,
        // and one for the work queue.
        assert!(deaths <= 5 && size < 2_048, "{found}");
    }
    engine.close().await;
}

/// When the wait of a message is over, as it states that.
fn wait_until(properties: &BasicProperties) -> Option<SystemTime> {
    let text = header(properties, "jobq-wait-until")?.as_long_string()?.to_string();
    Some(SystemTime::UNIX_EPOCH + millis(text.parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_says_until_when_it_waits_and_only_while_it_does() {
    let namespace = broker::namespace();
    let url = broker::shared().await;
    let engine = jobq::engine::conformance::open(&url, &namespace).await.unwrap();
    let long = Duration::from_secs(600);
    engine.declare(&[QueueSpec::new("mail").waits([long])]).await.unwrap();
    let raw = Raw::connect(&url).await;
    let tier = format!("{namespace}:mail@wait.10m");
    let in_tier = async || until("the message in its tier", async || raw.peek(&tier).await).await;
    let is_over_in = |properties: &BasicProperties, began: SystemTime| {
        let until = wait_until(properties).unwrap();
        // It has whole milliseconds.
        (began + long - millis(1)..=SystemTime::now() + long).contains(&until)
    };
    let began = SystemTime::now();
    let delayed = with(Envelope::new("mail", b"{}".to_vec()), |job| job.delay = long);
    engine.push(delayed).await.unwrap();
    assert!(is_over_in(&in_tier().await, began));
    let purged = raw.channel.queue_purge(tier.as_str().into(), QueuePurgeOptions::default());
    purged.await.unwrap();

    engine.push(Envelope::new("mail", b"{}".to_vec())).await.unwrap();
    let mut consumer = engine.consume_from("mail", 1).await.unwrap();
    let began = SystemTime::now();
    let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
    delivery.settle(Settlement::Snooze(long)).await.unwrap();
    let snoozed = in_tier().await;
    assert!(is_over_in(&snoozed, began));

    // As one that has come out of its tier.
    raw.publish(&namespace, "mail", snoozed, b"{}").await;
    let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
    consumer.stop().await;
    delivery.settle(Settlement::Snooze(Duration::ZERO)).await.unwrap();
    let ready = until("the job", async || raw.peek(&format!("{namespace}:mail")).await).await;
    assert_eq!(wait_until(&ready), None);
}
