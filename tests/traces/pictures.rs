//! What the traces of jobs look like.

use std::time::Duration;

use jobq::{Trace, WorkerPool};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, until};
use tracing::{Instrument as _, info_span};

use crate::jobs::{Count, Hang, Pay, Shop, Suffer, UserCreated};
use crate::picture::{Picture, exporter};

both_engines!(
    a_request_and_its_job_are_linked_with_all_attributes,
    children_are_of_the_trace_of_the_request,
    an_event_is_linked_with_the_jobs_of_its_subscribers,
    an_event_is_the_parent_of_the_jobs_of_its_subscribers,
    each_outcome_is_told,
    a_job_that_is_retried_is_linked_with_what_sent_it,
    a_job_that_is_retried_is_a_child_of_what_sent_it,
    a_job_keeps_its_trace_through_delays_and_snoozes,
    jobs_that_are_enqueued_together_have_one_span,
    a_call_that_fails_says_so,
    a_context_of_the_programs_own_is_kept,
);

/// `part` for RabbitMQ alone.
fn on_rabbitmq(store: &Store, part: &str) -> String {
    if store.is_file() { String::new() } else { part.to_owned() }
}

async fn a_request_and_its_job_are_linked_with_all_attributes(store: Store) {
    exporter();
    let mut shop = Shop::open(&store, Trace::Link).await;
    let request = async { shop.client.enqueue(Pay { order: 7 }).await.unwrap() };
    let id = request.instrument(info_span!("POST /orders")).await;
    shop.done(2).await;
    shop.close().await;

    let picture = Picture::take();
    let details = picture.details();
    let system = if store.is_file() { "jobq" } else { "rabbitmq" };
    let key = |key: &str| {
        on_rabbitmq(&store, &format!(" messaging.rabbitmq.destination.routing_key={key}"))
    };
    let message = |queue: &str, id: &str, operation: &str, key: &str| {
        format!(
            "messaging.destination.name={queue} messaging.message.id={id} \
             messaging.operation.name={operation} messaging.operation.type={operation}{key} \
             messaging.system={system}"
        )
    };
    let id = id.to_string();
    let part = |line: &str, name: &str| -> String {
        let value = line.split(name).nth(1).unwrap_or_default();
        value.split(' ').next().unwrap_or_default().to_owned()
    };
    let shipped = part(&details[4], "messaging.message.id=");
    assert!(shipped != id && shipped.len() == id.len(), "{details:#?}");
    let expected = [
        "internal POST /orders ".to_owned(),
        format!(
            "producer send pay < POST /orders jobq.job=pay {}",
            message("pay", &id, "send", &key("pay@100"))
        ),
        format!(
            "consumer process pay ~ send pay error.type=error jobq.attempt=1 jobq.job=pay \
             jobq.outcome=retried {}",
            message("pay", &id, "process", &key("pay@100"))
        ),
        format!(
            "consumer process pay ~ send pay jobq.attempt=2 jobq.job=pay jobq.outcome=completed {}",
            message("pay", &id, "process", &key("pay@100"))
        ),
        format!(
            "producer send ship < process pay jobq.job=ship {}",
            message("ship", &shipped, "send", &key("ship@30000"))
        ),
        format!(
            "consumer process ship ~ send ship jobq.attempt=1 jobq.job=ship jobq.outcome=completed \
             {}",
            message("ship", &shipped, "process", &key("ship@30000"))
        ),
    ];
    assert_eq!(details, expected);
}

async fn children_are_of_the_trace_of_the_request(store: Store) {
    exporter();
    let mut shop = Shop::open(&store, Trace::Child).await;
    let request = async { shop.client.enqueue(Pay { order: 7 }).await.unwrap() };
    request.instrument(info_span!("POST /orders")).await;
    shop.done(2).await;
    shop.close().await;
    let expected = [
        r#"consumer process pay < send pay 1 retried error Error { description: "the bank is busy" }"#,
        "consumer process pay < send pay 2 completed",
        "consumer process ship < send ship 1 completed",
        "internal POST /orders",
        "producer send pay < POST /orders",
        "producer send ship < process pay",
    ];
    assert_eq!(Picture::take().lines(), expected);
}

async fn an_event_is_linked_with_the_jobs_of_its_subscribers(store: Store) {
    publish(store, Trace::Link, "~").await;
}

async fn an_event_is_the_parent_of_the_jobs_of_its_subscribers(store: Store) {
    publish(store, Trace::Child, "<").await;
}

async fn publish(store: Store, mode: Trace, relation: &str) {
    exporter();
    let mut shop = Shop::open(&store, mode).await;
    let event = UserCreated { user: 7 };
    let publishing = async { shop.client.publish_event(&event).await.unwrap() };
    let id = publishing.instrument(info_span!("sign up")).await;
    shop.done(2).await;
    shop.close().await;
    let picture = Picture::take();
    let expected = [
        format!("consumer process audit {relation} send user.created 1 completed"),
        format!("consumer process greet {relation} send user.created 1 completed"),
        "internal sign up".to_owned(),
        "producer send user.created < sign up".to_owned(),
    ];
    assert_eq!(picture.lines(), expected);
    let key = "messaging.rabbitmq.destination.routing_key=user.created ";
    let key = on_rabbitmq(&store, key);
    for line in &picture.details()[1..] {
        assert!(line.contains(&format!("messaging.message.id={id} ")), "{line}");
        assert!(line.contains(&key), "{line}");
    }
}

async fn each_outcome_is_told(store: Store) {
    exporter();
    let mut shop = Shop::open(&store, Trace::Link).await;
    shop.client.enqueue(Suffer {}).await.unwrap();
    shop.client.enqueue(Hang {}).await.unwrap();
    shop.done(1).await;
    let hanging = shop.client.failed("hang");
    until("a timeout", async || hanging.list(1).await.ok()?.pop()).await;
    shop.close().await;
    let attempt = |rest: &str| format!("consumer process suffer ~ send suffer {rest} }}");
    let expected = [
        "consumer process hang ~ send hang 1 failed timeout Error { description: \"it took longer \
         than its timeout of 100ms\" }"
            .to_owned(),
        attempt(r#"1 retried panic Error { description: "it panicked: no paper""#),
        attempt(r#"2 retried error Error { description: "no ink""#),
        attempt(r#"3 retried error Error { description: "busy""#),
        attempt(r#"4 failed error Error { description: "no such printer""#),
        "producer send hang".to_owned(),
        "producer send suffer".to_owned(),
    ];
    assert_eq!(Picture::take().lines(), expected);
}

async fn a_job_that_is_retried_is_linked_with_what_sent_it(store: Store) {
    retry(store, Trace::Link, "~").await;
}

async fn a_job_that_is_retried_is_a_child_of_what_sent_it(store: Store) {
    retry(store, Trace::Child, "<").await;
}

async fn retry(store: Store, mode: Trace, relation: &str) {
    exporter();
    let mut shop = Shop::open(&store, mode).await;
    let id = shop.client.enqueue(Suffer {}).await.unwrap();
    let failed = shop.client.failed("suffer");
    for _ in 0..2 {
        shop.done(1).await;
        let job = until("a failed job", async || failed.list(1).await.ok()?.pop()).await;
        assert!(job.header("traceparent").is_some_and(|context| context.starts_with("00-")));
        assert_eq!(job.header("tracestate"), None, "an empty one says nothing");
        failed.retry(id).await.unwrap();
    }
    shop.done(1).await;
    shop.close().await;
    let lines = Picture::take().lines();
    let start = format!("consumer process suffer {relation} send suffer ");
    let attempts = lines.iter().filter(|line| line.starts_with(&start));
    assert_eq!((attempts.count(), lines.len()), (12, 13), "{lines:#?}");
}

async fn a_job_keeps_its_trace_through_delays_and_snoozes(store: Store) {
    exporter();
    let mut shop = Shop::open(&store, Trace::Link).await;
    shop.client.enqueue(Count {}).delay(Duration::from_millis(170)).await.unwrap();
    shop.done(1).await;
    shop.close().await;
    let expected = [
        "consumer process count ~ send count 1 completed",
        "consumer process count ~ send count 1 snoozed",
        "producer send count",
    ];
    assert_eq!(Picture::take().lines(), expected);
}

async fn jobs_that_are_enqueued_together_have_one_span(store: Store) {
    exporter();
    let mut shop = Shop::open(&store, Trace::Link).await;
    shop.client.enqueue_all((0..3).map(|order| Pay { order })).await.unwrap();
    shop.done(6).await;
    shop.close().await;
    let picture = Picture::take();
    let lines = picture.lines();
    let paid = "consumer process pay ~ send pay 2 completed";
    assert_eq!(lines.iter().filter(|line| *line == paid).count(), 3, "{lines:#?}");
    let sent: Vec<_> =
        picture.details().into_iter().filter(|line| line.contains("send pay jobq.job")).collect();
    let key = on_rabbitmq(&store, " messaging.rabbitmq.destination.routing_key=pay@100");
    let system = if store.is_file() { "jobq" } else { "rabbitmq" };
    let expected = format!(
        "producer send pay jobq.job=pay messaging.batch.message_count=3 \
         messaging.destination.name=pay messaging.operation.name=send \
         messaging.operation.type=send{key} messaging.system={system}"
    );
    assert_eq!(sent, [expected]);
}

async fn a_call_that_fails_says_so(store: Store) {
    exporter();
    let shop = Shop::open(&store, Trace::Link).await;
    let missing = shop.client.publish("nobody.listens", &7).mandatory().await;
    assert!(missing.unwrap_err().is_not_found());
    let refused = shop.client.enqueue(Pay { order: 7 }).header("CC", "no").await;
    assert!(refused.unwrap_err().is_invalid());
    let refused = shop.client.enqueue_all([Pay { order: 7 }]).header("CC", "no").await;
    assert_eq!(refused.unwrap_err().refused().len(), 1);
    shop.client.close().await;
    assert!(shop.client.enqueue(Pay { order: 7 }).await.unwrap_err().is_closed());
    let lines = Picture::take().lines();
    let starts = [
        "producer send nobody.listens not-found Error",
        "producer send pay closed Error",
        "producer send pay invalid Error",
        "producer send pay invalid Error",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{lines:#?}");
    }
    assert!(lines[1].contains("closed"));
}

async fn a_context_of_the_programs_own_is_kept(store: Store) {
    exporter();
    let shop = Shop::open(&store, Trace::Link).await;
    let own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    // No pool takes it any more.
    shop.pool.shutdown().await.unwrap();
    shop.client.enqueue(Pay { order: 7 }).header("traceparent", own).await.unwrap();
    let (seen, mut headers) = tokio::sync::mpsc::unbounded_channel();
    let pool = WorkerPool::new(&shop.client)
        .state::<crate::jobs::Done>(tokio::sync::mpsc::unbounded_channel().0)
        .register::<Pay>()
        .around(move |attempt: jobq::Attempt, _| {
            let of = |name| attempt.header(name).map(str::to_owned);
            let _ = seen.send((of("traceparent"), of("tracestate")));
            std::future::ready(jobq::Outcome::completed())
        })
        .spawn()
        .await
        .unwrap();
    let found = jobq_tests::test_store::soon("the headers", headers.recv()).await.unwrap();
    assert_eq!(found, (Some(own.to_owned()), None));
    pool.shutdown().await.unwrap();
}
