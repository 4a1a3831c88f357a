//! A program that starts while its broker is down.

use std::time::Duration;

use jobq::{BoxError, Client, ErrorKind, State, WorkerPool, job};
use jobq_tests::broker::Broker;
use jobq_tests::test_store::{DEADLINE, soon};
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

#[tokio::test]
async fn a_lazy_client_is_told_of_a_wrong_url() {
    for url in ["amqp://", "amqp://localhost:0", "http://localhost", "sqlite://"] {
        let error = Client::builder(url).connect_lazy().await.unwrap_err();
        assert!(error.is_invalid(), "{url}: {error:?}");
    }
    let error =
        Client::builder("amqp://localhost").namespace("No").connect_lazy().await.unwrap_err();
    assert!(error.is_invalid(), "{error:?}");
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
