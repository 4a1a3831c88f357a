//! Events: every subscriber gets a job of its own.

use std::time::Duration;

use crate::engine::conformance::EngineExt as _;
use crate::engine::conformance::bench::{Bench, event, failure, headers, ids, settle, soon};
use crate::engine::{Delivery, QueueSpec, Settlement, Verdict};
use crate::error::{Error, ErrorKind};
use crate::job::{EventEnvelope, FailedReason, JobId};

const DECLARED: Duration = Duration::from_millis(300);
const UNDECLARED: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(600);

async fn subscribe(bench: &Bench, queue: &str, patterns: &[&str]) {
    let spec = QueueSpec::new(queue).waits([DECLARED]);
    bench.declare_as(spec.patterns(patterns.iter().copied())).await;
}

async fn unsubscribe(bench: &Bench, queue: &str, pattern: &str) {
    let ended = bench.admin().unsubscribe(queue, pattern);
    soon("the end of a subscription", ended).await.expect("unsubscribes");
}

/// Publishes an event, and returns its id.
async fn publish(bench: &Bench, event: EventEnvelope) -> JobId {
    let id = event.id;
    soon("an event", bench.engine().publish(event, false)).await.expect("publishes");
    id
}

async fn take_from(bench: &Bench, queue: &'static str) -> Delivery {
    let mut consumer = bench.consumer(queue, 1).await;
    let delivery = consumer.take().await;
    consumer.stop_soon().await;
    delivery
}

/// The error of a mandatory event that nobody subscribes to.
async fn unheard(bench: &Bench) -> Error {
    let unheard = soon("an event", bench.engine().publish(event("user.created"), true)).await;
    unheard.expect_err("nobody subscribes")
}

/// Checks that this subscriber cannot be deleted without force, for a reason with this text.
async fn is_not_deleted(bench: &Bench, spec: &QueueSpec, text: &str) {
    let error = bench.delete(spec, false).await.expect_err("it is used");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// Each subscriber gets the event unchanged, and no other queue does.
pub async fn an_event_reaches_every_subscriber(bench: &Bench) {
    subscribe(bench, "welcome", &["user.created"]).await;
    subscribe(bench, "audit", &["#"]).await;
    subscribe(bench, "invoice", &["order.*"]).await;
    let published = EventEnvelope {
        enqueued_by: Some("shop-web".into()),
        headers: headers(),
        content_encoding: Some("gzip".into()),
        ..event("user.created")
    };
    publish(bench, published.clone()).await;
    for queue in ["welcome", "audit"] {
        let delivery = take_from(bench, queue).await;
        let job = delivery.envelope();
        assert_eq!((job.id, &job.payload), (published.id, &published.payload));
        assert_eq!((job.topic.as_deref(), job.name.as_deref()), (Some("user.created"), None));
        assert_eq!((delivery.attempt, &*job.queue, job.expires_at), (1, queue, None));
        assert_eq!(job.enqueued_by, published.enqueued_by);
        assert_eq!(
            (&job.headers, &job.content_encoding),
            (&published.headers, &published.content_encoding)
        );
        settle(delivery, Settlement::Complete).await;
        bench.counts(queue, 0, 0, 0).await;
    }
    bench.counts("invoice", 0, 0, 0).await;
}

/// A queue gets one job of an event, however many of its patterns match it.
pub async fn an_event_reaches_a_queue_once(bench: &Bench) {
    subscribe(bench, "audit", &["user.*", "user.created", "#", "*.created"]).await;
    let first = publish(bench, event("user.created")).await;
    let second = publish(bench, event("user.renamed")).await;
    let mut consumer = bench.consumer("audit", 10).await;
    assert_eq!(ids(&consumer.take_many(2).await), [first, second]);
    bench.counts("audit", 0, 0, 0).await;
}

/// `*` matches one word of a topic, `#` any number of words.
pub async fn a_pattern_means_topics_as_in_amqp(bench: &Bench) {
    let table: [(&str, &str, &[&str]); 6] = [
        ("itself", "user.created", &["user.created"]),
        ("one", "user.*", &["user.created"]),
        ("any", "user.#", &["user", "user.created", "user.name.changed"]),
        ("last", "#.changed", &["user.name.changed", "changed"]),
        ("single", "*", &["user", "changed"]),
        ("both", "*.#.changed", &["user.name.changed"]),
    ];
    for (queue, pattern, _) in table {
        subscribe(bench, queue, &[pattern]).await;
    }
    for topic in ["user", "user.created", "user.name.changed", "changed"] {
        publish(bench, event(topic)).await;
    }
    for (queue, pattern, topics) in table {
        let mut consumer = bench.consumer(queue, 10).await;
        let deliveries = consumer.take_many(topics.len()).await;
        let found: Vec<_> =
            deliveries.iter().filter_map(|delivery| delivery.envelope().topic.as_deref()).collect();
        assert_eq!(found, topics, "{pattern}");
        bench.counts(queue, 0, 0, 0).await;
    }
}

/// A failing subscriber has its own retries and attempts.
pub async fn a_retry_of_an_event_is_its_subscribers_own(bench: &Bench) {
    subscribe(bench, "welcome", &["user.*"]).await;
    subscribe(bench, "audit", &["user.*"]).await;
    let id = publish(bench, event("user.created")).await;
    let mut consumer = bench.consumer("welcome", 1).await;
    // The first delivery without the hint that prepares a retry.
    let waits = [DECLARED, DECLARED, UNDECLARED, Duration::ZERO];
    for (attempt, wait) in (1..).zip(waits) {
        let delivery = consumer.take_attempt(id, attempt).await;
        assert_eq!(delivery.envelope().topic.as_deref(), Some("user.created"), "attempt {attempt}");
        settle(delivery, Settlement::Retry(wait)).await;
    }
    settle(consumer.take_attempt(id, 5).await, Settlement::Snooze(UNDECLARED)).await;
    let delivery = consumer.take_attempt(id, 5).await;
    assert_eq!(delivery.envelope().topic.as_deref(), Some("user.created"));
    settle(delivery, Settlement::Complete).await;
    bench.counts("welcome", 0, 0, 0).await;
    bench.counts("audit", 1, 0, 0).await;
}

/// The retry of a failed event goes to the failed subscriber, with its topic.
pub async fn an_event_that_is_retried_is_its_subscribers_own(bench: &Bench) {
    subscribe(bench, "welcome", &["user.*"]).await;
    subscribe(bench, "audit", &["user.*"]).await;
    let expires_at = Some(bench.now() + LONG);
    let id = publish(bench, EventEnvelope { expires_at, ..event("user.created") }).await;
    let fail = failure(FailedReason::Exhausted, "no", 1);
    settle(take_from(bench, "welcome").await, fail).await;
    bench.counts("welcome", 0, 0, 1).await;
    let failed = soon("a list", bench.engine().failed_list("welcome", 10)).await.expect("lists");
    assert_eq!((failed[0].id(), failed[0].attempts(), failed[0].queue()), (id, 1, "welcome"));
    let retry = bench.engine().failed_settle("welcome", Some(id), Verdict::Retry);
    assert_eq!(soon("a retry", retry).await.expect("retries"), 1);
    let delivery = take_from(bench, "welcome").await;
    assert_eq!((delivery.envelope().id, delivery.attempt), (id, 1));
    assert_eq!(delivery.envelope().topic.as_deref(), Some("user.created"));
    let late = bench.now() + LONG * 1_000;
    assert!(delivery.envelope().expires_at.is_none_or(|end| end > late), "it does not expire");
    settle(delivery, Settlement::Complete).await;
    bench.counts("welcome", 0, 0, 0).await;
    bench.counts("audit", 1, 0, 0).await;
}

/// A subscription needs no consumer.
pub async fn an_event_waits_for_its_subscribers_workers(bench: &Bench) {
    subscribe(bench, "welcome", &["user.*"]).await;
    bench.consumer("welcome", 1).await.stop_soon().await;
    let mut published = Vec::new();
    for _ in 0..3 {
        published.push(publish(bench, event("user.created")).await);
    }
    bench.counts("welcome", 3, 0, 0).await;
    let mut consumer = bench.consumer("welcome", 3).await;
    assert_eq!(ids(&consumer.take_many(3).await), published);
}

/// An event needs a subscriber only if it is mandatory.
pub async fn only_a_mandatory_event_needs_a_subscriber(bench: &Bench) {
    publish(bench, event("user.created")).await;
    let error = unheard(bench).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(!error.maybe_enqueued() && error.to_string().contains("user.created"), "{error}");
    subscribe(bench, "welcome", &["user.created"]).await;
    let heard = event("user.created");
    let id = heard.id;
    soon("an event", bench.engine().publish(heard, true)).await.expect("is heard");
    assert_eq!(take_from(bench, "welcome").await.envelope().id, id);
}

/// Declaring adds subscriptions; a single one can be ended, and its jobs stay.
pub async fn subscriptions_are_added_and_ended_one_by_one(bench: &Bench) {
    subscribe(bench, "welcome", &["user.created"]).await;
    subscribe(bench, "welcome", &["user.renamed"]).await;
    subscribe(bench, "welcome", &[]).await;
    let mut expected = Vec::new();
    for topic in ["user.created", "user.renamed"] {
        expected.push(publish(bench, event(topic)).await);
    }
    for _ in 0..2 {
        unsubscribe(bench, "welcome", "user.created").await;
    }
    publish(bench, event("user.created")).await;
    expected.push(publish(bench, event("user.renamed")).await);
    let mut consumer = bench.consumer("welcome", 10).await;
    assert_eq!(ids(&consumer.take_many(3).await), expected);
    bench.counts("welcome", 0, 0, 0).await;
    for queue in ["welcome", "nobody"] {
        unsubscribe(bench, queue, "no.such.subscription").await;
    }
}

/// A subscriber is deleted with its queues, but not while it has jobs.
pub async fn a_subscriber_with_jobs_is_deleted_by_force_alone(bench: &Bench) {
    let spec = QueueSpec::new("welcome").waits([LONG]).patterns(["user.*"]);
    bench.declare_as(spec.clone()).await;
    for (settlement, (ready, waiting, failed)) in [
        (failure(FailedReason::Aborted, "", 1), (0, 0, 1)),
        (Settlement::Retry(LONG), (0, 1, 1)),
        (Settlement::Release, (1, 1, 1)),
    ] {
        publish(bench, event("user.created")).await;
        settle(take_from(bench, "welcome").await, settlement).await;
        bench.counts("welcome", ready, waiting, failed).await;
        is_not_deleted(bench, &spec, "`welcome`").await;
        bench.counts("welcome", ready, waiting, failed).await;
    }
    assert_eq!(bench.delete(&spec, true).await.expect("deletes"), 3);
    assert_eq!(bench.delete(&spec, false).await.expect("is deleted"), 0);
    bench.counts("welcome", 0, 0, 0).await;
    assert!(unheard(bench).await.is_not_found());
    // It can be declared again.
    bench.declare_as(spec.clone()).await;
    let id = publish(bench, event("user.created")).await;
    let delivery = take_from(bench, "welcome").await;
    assert_eq!(delivery.envelope().id, id);
    settle(delivery, Settlement::Complete).await;
    bench.counts("welcome", 0, 0, 0).await;
    assert_eq!(bench.delete(&spec, false).await.expect("deletes"), 0);
}

/// A subscriber that is consumed is deleted by force alone.
pub async fn a_subscriber_with_consumers_is_deleted_by_force_alone(bench: &Bench) {
    let spec = QueueSpec::new("welcome").patterns(["user.*"]);
    bench.declare_as(spec.clone()).await;
    let mut consumer = bench.consumer("welcome", 1).await;
    is_not_deleted(bench, &spec, " consumers").await;
    // Its subscriptions have not ended.
    let id = publish(bench, event("user.created")).await;
    consumer.complete(id).await;
    assert_eq!(bench.delete(&spec, true).await.expect("deletes"), 0);
}

/// A job that was deleted while it ran ends without an effect on one that came later.
pub async fn the_end_of_a_deleted_job_concerns_no_other(bench: &Bench) {
    let failed = failure(FailedReason::Aborted, "", 1);
    let spec = QueueSpec::new("mail").waits([LONG]);
    for end in [Settlement::Complete, Settlement::Retry(LONG), failed] {
        let (mut first, _) = bench.consume_jobs(&[LONG], 1, 1).await;
        let deleted = first.take().await;
        first.stop_soon().await;
        bench.delete(&spec, true).await.expect("deletes");
        let (mut second, later) = bench.consume_jobs(&[LONG], 1, 1).await;
        let delivery = second.take_attempt(later[0], 1).await;
        // An engine may have no place for it, and say so.
        let _ = soon("the end of the deleted job", deleted.settle(end)).await;
        settle(delivery, Settlement::Release).await;
        second.complete(later[0]).await;
        drop(second);
        bench.delete(&spec, true).await.expect("deletes");
    }
}

/// A delayed event reaches the subscribers at the end of its wait.
pub async fn a_delayed_event_reaches_those_who_subscribe_when_it_is_due(bench: &Bench) {
    subscribe(bench, "former", &["user.*"]).await;
    subscribe(bench, "always", &["user.*"]).await;
    subscribe(bench, "newcomer", &["order.*"]).await;
    let delay = Duration::from_secs(5);
    let start = std::time::Instant::now();
    let enqueued_by = Some("shop-web".into());
    let headers = headers();
    let event = EventEnvelope { headers, delay, enqueued_by, ..event("user.created") };
    let id = publish(bench, event.clone()).await;
    let published = std::time::Instant::now();
    subscribe(bench, "newcomer", &["user.*"]).await;
    unsubscribe(bench, "former", "user.*").await;
    assert!(published.elapsed() < delay, "the machine is too busy to tell who subscribed when");
    for queue in ["always", "newcomer"] {
        let delivery = take_from(bench, queue).await;
        // The engine's clock may differ from the suite's.
        assert!(start.elapsed() + Duration::from_millis(5) >= delay, "{queue}");
        let job = delivery.envelope();
        assert_eq!((job.id, job.topic.as_deref()), (id, Some("user.created")));
        assert_eq!((delivery.attempt, job.delay), (1, Duration::ZERO));
        assert_eq!((&job.enqueued_by, &job.headers), (&event.enqueued_by, &event.headers));
        settle(delivery, Settlement::Retry(DECLARED)).await;
        let again = take_from(bench, queue).await;
        assert_eq!(again.envelope().headers, event.headers);
        assert_eq!((again.attempt, again.envelope().topic.as_deref()), (2, Some("user.created")));
        settle(again, Settlement::Complete).await;
    }
    bench.counts("former", 0, 0, 0).await;
}

/// A delayed event needs no subscriber when it is due, and blocks no other event.
pub async fn a_delayed_event_may_find_no_subscriber(bench: &Bench) {
    subscribe(bench, "welcome", &["user.created"]).await;
    let waiting =
        |topic, millis| EventEnvelope { delay: Duration::from_millis(millis), ..event(topic) };
    publish(bench, waiting("user.renamed", 100)).await;
    let id = publish(bench, waiting("user.created", 300)).await;
    assert_eq!(take_from(bench, "welcome").await.envelope().id, id);
}
