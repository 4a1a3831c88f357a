//! A program that starts while its broker is down.

use std::collections::BTreeMap;
use std::time::Duration;

use jobq::{BoxError, Client, Error, ErrorKind, State, WorkerPool, job};
use jobq_tests::broker::Broker;
use jobq_tests::proxy::{Proxy, Toward};
use jobq_tests::test_store::{DEADLINE, soon, until};
use tokio::sync::mpsc;

#[job]
async fn greet(
    name: String,
    greeted: State<mpsc::UnboundedSender<String>>,
) -> Result<(), BoxError> {
    Ok(greeted.send(name)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_client_goes_on_when_its_broker_comes_up() {
    let test = "a_lazy_client_goes_on_when_its_broker_comes_up";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    broker.kill();
    let builder = Client::builder(broker.url());
    let error = builder.clone().connect().await.expect_err("nobody listens");
    assert!(error.is_connection(), "{error:?}");
    let client = builder.clone().timeout(DEADLINE).connect_lazy().await.expect("it waits for none");
    let hasty = builder.timeout(Duration::from_millis(300)).connect_lazy().await.unwrap();

    let error = hasty.enqueue(Greet { name: "ann".into() }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(!error.maybe_enqueued(), "{error:?}");
    assert!(error.to_string().contains("no connection"), "{error}");
    hasty.close().await;
    let error = hasty.counts("greet").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");

    let waiting = client.clone();
    let enqueued = tokio::spawn(async move { waiting.enqueue(Greet { name: "bea".into() }).await });
    broker.restart().await;
    soon("the job to be accepted", enqueued).await.unwrap().unwrap();
    let (greeted, mut names) = mpsc::unbounded_channel::<String>();
    let pool = WorkerPool::new(&client).state(greeted).register::<Greet>();
    let running = pool.spawn().await.unwrap();
    assert_eq!(soon("the job to run", names.recv()).await.as_deref(), Some("bea"));
    running.shutdown().await.unwrap();
    assert!(names.try_recv().is_err(), "the refused one was not enqueued");
}

/// Within this time a call fails without waiting for its timeout, which is longer.
const AT_ONCE: Duration = Duration::from_secs(10);

/// The error of a call that does not wait for the broker.
async fn fails_at_once<T, E: Into<Error>>(
    call: impl IntoFuture<Output = Result<T, E>>,
) -> Result<(), Error> {
    let answer = tokio::time::timeout(AT_ONCE, call.into_future()).await;
    let error: Error = answer.expect("it fails at once").err().expect("no broker").into();
    if error.is_timeout() && error.to_string().contains("out of reach for longer than 300ms") {
        assert!(!error.maybe_enqueued(), "{error:?}");
        return Ok(());
    }
    Err(error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_fast_while_the_broker_is_down() {
    let test = "calls_fail_fast_while_the_broker_is_down";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    let builder = Client::builder(broker.url()).timeout(DEADLINE).fail_fast_after("300ms");
    let client = builder.clone().connect().await.unwrap();
    let greet = |name: &str| Greet { name: name.into() };
    client.enqueue(greet("ann")).await.unwrap();
    broker.kill();
    // A job may be sent before the end of the connection is noticed.
    until("calls to fail fast", async || fails_at_once(client.enqueue(greet("bea"))).await.ok())
        .await;
    // From the start on, without a connection at any time.
    let lazy = builder.connect_lazy().await.unwrap();
    for client in [&client, &lazy] {
        fails_at_once(client.enqueue(greet("bea"))).await.unwrap();
        fails_at_once(client.enqueue(greet("bea")).delay("1h")).await.unwrap();
        fails_at_once(client.enqueue_all([greet("bea"), greet("cid")])).await.unwrap();
        fails_at_once(client.publish("user.created", &7)).await.unwrap();
        fails_at_once(client.publish("user.created", &7).mandatory()).await.unwrap();
        fails_at_once(async { client.counts("greet").await }).await.unwrap();
        fails_at_once(async { client.failed("greet").list(1).await }).await.unwrap();
        fails_at_once(async { client.declare_delays().await }).await.unwrap();
    }

    broker.restart().await;
    for client in [&client, &lazy] {
        until("the broker to be found", async || client.enqueue(greet("dan")).await.ok()).await;
    }
    let (greeted, mut names) = mpsc::unbounded_channel::<String>();
    let pool = WorkerPool::new(&client).state(greeted).register::<Greet>();
    let running = pool.spawn().await.unwrap();
    let mut ran = BTreeMap::<String, usize>::new();
    while ran.get("dan") != Some(&2) {
        *ran.entry(soon("a job", names.recv()).await.unwrap()).or_default() += 1;
    }
    running.shutdown().await.unwrap();
    assert_eq!(ran.get("ann"), Some(&1));
    assert_eq!(ran.get("cid"), None, "what was refused is not enqueued");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_its_own_timeout() {
    let test = "a_call_has_its_own_timeout";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    let proxy = Proxy::to(&broker.url()).await;
    let greet = |name: &str| Greet { name: name.into() };
    let patient = Client::builder(proxy.url()).timeout(DEADLINE).connect().await.unwrap();
    patient.enqueue(greet("ann")).timeout("50s").await.unwrap();

    // Nothing comes back: what was sent may be there.
    proxy.freeze(Toward::Client);
    let check = |error: Error, maybe: bool| {
        assert!(error.is_timeout() && error.maybe_enqueued() == maybe, "{maybe}: {error:?}");
        assert!(error.to_string().contains("in 200ms"), "{error}");
    };
    let call = patient.enqueue(greet("bea")).timeout("200ms").into_future();
    check(soon("an answer", call).await.unwrap_err(), true);
    let call = patient.enqueue_named("greet", "greet", &greet("bea")).timeout("200ms");
    check(soon("an answer", call.into_future()).await.unwrap_err(), true);
    let call = patient.publish("user.created", &7).timeout("200ms").into_future();
    check(soon("an answer", call).await.unwrap_err(), true);
    // More than can be sent without a confirm.
    let many = (0..3_000).map(|_| greet("cid"));
    let call = patient.enqueue_all(many).timeout("200ms").into_future();
    let error = soon("an answer", call).await.unwrap_err();
    assert!(error.accepted().is_empty() && !error.unknown().is_empty(), "{error}");
    assert_eq!(error.refused().len() + error.unknown().len(), 3_000);
    for (_, error) in error.refused() {
        check(error.clone(), false);
    }

    let error = patient.enqueue(greet("dan")).timeout("0s").await.unwrap_err();
    assert!(error.is_invalid(), "{error:?}");
    proxy.thaw();
    patient.enqueue(greet("eve")).timeout("50s").await.unwrap();
}

#[tokio::test]
async fn a_lazy_client_is_told_of_a_wrong_url() {
    for url in ["amqp://", "amqp://localhost:0", "http://localhost", "sqlite://"] {
        let error = Client::builder(url).connect_lazy().await.unwrap_err();
        assert!(error.is_invalid(), "{url}: {error:?}");
    }
    let error =
        Client::builder("amqp://localhost").namespace("No").connect_lazy().await.unwrap_err();
    assert!(error.is_invalid(), "{error:?}");
    let hasty = Client::builder("amqp://localhost").fail_fast_after("soon");
    let error = hasty.connect_lazy().await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("fail_fast_after"), "{error:?}");
}

/// How many queues there are.
async fn queues(broker: &Broker) -> usize {
    broker.ctl(&["list_queues", "name", "--silent"]).await.lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_delays_leave_nothing_to_the_first_job() {
    let test = "declared_delays_leave_nothing_to_the_first_job";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    let client = Client::builder(broker.url()).timeout(DEADLINE).connect().await.unwrap();
    client.declare::<Greet>().await.unwrap();
    let before = queues(&broker).await;
    client.declare_delays().await.unwrap();
    let declared = queues(&broker).await;
    assert!(declared > before + 50, "{before} and {declared}");
    client.enqueue(Greet { name: "ann".into() }).delay("1h").await.unwrap();
    client.declare_delays().await.unwrap();
    assert_eq!(queues(&broker).await, declared);
}
