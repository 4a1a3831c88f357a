//! Alarms: the broker stops reading from whoever publishes.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use jobq::engine::conformance::eventually;
use jobq::{BoxError, Client, job};
use jobq_tests::broker::Broker;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, soon, until};

/// What a client of these tests waits for at the most.
/// Long enough for what a busy machine does.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// The shutdown timeout of a pool that ends during an alarm.
const SHUTDOWN: Duration = Duration::from_secs(4);

/// How an alarm is set off, and how it ends.
pub(super) struct Alarm {
    pub(super) on: [&'static str; 2],
    pub(super) off: [&'static str; 2],
    /// What the broker calls it.
    pub(super) name: &'static str,
}

pub(super) const MEMORY: Alarm = Alarm {
    on: ["set_vm_memory_high_watermark", "0.00001"],
    off: ["set_vm_memory_high_watermark", "0.9"],
    name: "low on memory",
};

pub(super) const DISK: Alarm = Alarm {
    on: ["set_disk_free_limit", "1000000000000000"],
    off: ["set_disk_free_limit", "50000000"],
    name: "low on disk",
};

pub(super) async fn client(store: &Store) -> Client {
    let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(TIMEOUT);
    builder.connect().await.expect("the broker takes connections, alarm or not")
}

fn scripted(steps: impl Into<Vec<Step>>) -> Scripted {
    Scripted { steps: steps.into() }
}

/// Sets an alarm off and returns when the broker has told this client so.
pub(super) async fn sound(node: &Broker, alarm: &Alarm, client: &Client) {
    node.ctl(&alarm.on).await;
    // The first publish has the broker tell that it takes none. The alarm itself takes a
    // moment to be heard all over the broker, and until then it takes jobs.
    until("the alarm to be told", async || {
        let error = client.enqueue(scripted([Step::Succeed])).await.err()?;
        assert!(error.is_timeout(), "{error:?}");
        error.to_string().contains(alarm.name).then_some(())
    })
    .await;
}

async fn goes_on_by_itself(alarm: &Alarm, test: &str) {
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let sender = client(&test.store).await;
    let accepted = [
        test.enqueue([Step::Succeed]).await,
        // By the broker alone, through a tier.
        test.enqueue([Step::Fail("again".into()), Step::Succeed]).await,
    ];
    let republished = test.enqueue([Step::RetryIn(100), Step::RetryIn(100), Step::Succeed]).await;
    let failing = test.enqueue([Step::Abort("no use".into())]).await;
    sound(&node, alarm, &sender).await;

    let error = sender.enqueue(scripted([Step::Abort("never".into())])).await;
    let error = error.expect_err("the broker takes nothing");
    assert!(error.is_timeout() && !error.maybe_enqueued(), "{error:?}");
    for said in [alarm.name, "(never sent, and not stored)", "rabbitmq-diagnostics alarms", "15s"] {
        assert!(error.to_string().contains(said), "{said}: {error}");
    }

    // A pool that is shut down ends in time, and says which outcomes it could not record.
    let log = LogCapture::log();
    let leaving = test.store.client().await;
    let pool = test.pool_of(&leaving).shutdown_timeout(SHUTDOWN).spawn().await.expect("it starts");
    let mut runs = Vec::new();
    while ![republished, failing].iter().all(|id| runs.contains(id)) {
        runs.push(test.run().await.id);
    }
    let since = Instant::now();
    pool.shutdown().await.expect("it ends");
    let took = since.elapsed();
    // With time for a busy machine.
    assert!(took < SHUTDOWN + Duration::from_secs(2), "{took:?}");
    for (id, outcome) in [(republished, "retried"), (failing, "failed")] {
        let lines = log.lines(&["outcome not recorded", &format!("id={id}"), "job=scripted"]);
        let [line] = &lines[..] else { panic!("one line for {id}: {lines:#?}") };
        assert!(
            line.contains("attempt=1") && line.contains(&format!("outcome=\"{outcome}\"")),
            "{line}"
        );
    }
    assert_eq!(log.lines(&["pool stopped", "unrecorded=2"]).len(), 1, "{}", log.text());

    // Workers take jobs, and complete and retry them, during the alarm.
    let workers = test.store.client().await;
    let pool = test.pool_of(&workers).spawn().await.expect("the pool starts");
    let mut ran = Vec::new();
    while !accepted.iter().all(|id| ran.contains(id)) {
        ran.push(test.end().await);
    }
    assert!(!ran.contains(&republished), "it cannot be published now");

    node.ctl(&alarm.off).await;
    while !ran.contains(&republished) {
        ran.push(test.end().await);
    }
    let id = until("a job to be accepted", async || {
        sender.enqueue(scripted([Step::Succeed])).await.ok()
    });
    let id = id.await;
    while !ran.contains(&id) {
        ran.push(test.end().await);
    }
    pool.shutdown().await.expect("the pool ends");
    let counts = test.client.counts("scripted").await.expect("counts");
    assert_eq!(
        (counts.ready, counts.failed),
        (0.into(), 1.into()),
        "what was never sent is nowhere"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_alarm_is_told_and_waited_out() {
    goes_on_by_itself(&MEMORY, "a_memory_alarm_is_told_and_waited_out").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_alarm_is_told_and_waited_out() {
    goes_on_by_itself(&DISK, "a_disk_alarm_is_told_and_waited_out").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_fast_during_an_alarm() {
    let test = "calls_fail_fast_during_an_alarm";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let log = LogCapture::log();
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let Store { url, namespace, .. } = &test.store;
    let builder = Client::builder(url).namespace(namespace).timeout(DEADLINE);
    let builder = builder.fail_fast_after("300ms");
    let client = builder.clone().connect().await.expect("it connects");
    let moved = scripted([Step::RetryIn(100), Step::Succeed]);
    let moved = client.enqueue(moved).delay("3s").await.expect("the broker takes it");
    node.ctl(&MEMORY.on).await;
    // A pool starts on a connection that the broker has not blocked yet.
    let workers = builder.connect().await.expect("it connects");
    let pool = test.pool_of(&workers).spawn().await.expect("the pool starts");
    // What is sent before the alarm is told waits for its answer.
    let told = async |client: &Client| {
        until("calls to fail fast", async || {
            let call = client.enqueue(scripted([Step::Succeed])).into_future();
            tokio::time::timeout(Duration::from_secs(2), call).await.ok()?.err()
        })
        .await
    };
    told(&workers).await;
    let error = told(&client).await;
    assert!(error.is_timeout() && !error.maybe_enqueued(), "{error:?}");
    for said in [MEMORY.name, "out of reach for longer than 300ms", "(never sent, and not stored)"]
    {
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    let many = (0..50).map(|_| scripted([]));
    let error = client.enqueue_all(many).await.expect_err("the broker takes nothing");
    assert_eq!(error.refused().len(), 50, "{error:?}");

    // What a pool moves waits for the end of the alarm.
    while test.run().await.id != moved {}
    let error = told(&workers).await;
    assert!(!error.maybe_enqueued(), "{error:?}");
    node.ctl(&MEMORY.off).await;
    while test.end().await != moved {}
    assert_eq!(log.lines(&["could not move the job"]), Vec::<String>::new());
    until("jobs to be accepted", async || client.enqueue(scripted([])).await.ok()).await;
    pool.shutdown().await.expect("the pool ends");
}

#[job]
async fn keep(content: String) -> Result<(), BoxError> {
    drop(content);
    Ok(())
}

/// A job that no client of the test has declared before.
#[job]
async fn late() -> Result<(), BoxError> {
    Ok(())
}

/// The bytes of memory that this process has in use.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = pages.split(' ').nth(1).expect("in the second field");
    pages.parse::<usize>().expect("in pages") * 4_096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_callers_cost_no_memory_without_end() {
    const MIB: usize = 1024 * 1024;
    let test = "thousands_of_callers_cost_no_memory_without_end";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let place = Store::on_broker(node.url());
    let sender = client(&place).await;
    sender.declare::<Keep>().await.expect("declares");
    sender.declare::<Scripted>().await.expect("declares");
    sound(&node, &MEMORY, &sender).await;
    let before = resident();
    for _ in 0..1_800 {
        let job = Keep { content: "x".repeat(64 * 1024) };
        // A caller that goes away as soon as it would have to wait.
        let answer = sender.enqueue(job).into_future().now_or_never();
        assert!(answer.is_none(), "{answer:?}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 96 * MIB, "{} MiB for 112 MiB that nobody waits for", grown / MIB);

    // There is no room any more, and those who wait for it are told so, all at once.
    let callers = (0..2_000).map(|_| sender.enqueue(scripted([])).into_future());
    for answer in soon("all callers to be told", join_all(callers)).await {
        let error = answer.expect_err("the broker takes nothing");
        assert!(error.is_timeout() && !error.maybe_enqueued(), "{error:?}");
    }
    let many = (0..200).map(|_| scripted([]));
    let error = soon("one caller of many jobs to be told", sender.enqueue_all(many).into_future());
    let error = error.await.expect_err("the broker takes nothing");
    assert_eq!(error.refused().len(), 200, "{error:?}");
    // So are those who want to declare, which has no room of its own.
    let callers = (0..100).map(|_| sender.enqueue(Late {}).into_future());
    for answer in soon("all of these to be told", join_all(callers)).await {
        let error = answer.expect_err("the broker hears nothing");
        assert!(error.is_timeout() && !error.maybe_enqueued(), "{error:?}");
        assert!(error.to_string().contains(MEMORY.name), "{error}");
    }

    node.ctl(&MEMORY.off).await;
    sender.enqueue(scripted([])).await.expect("the broker takes jobs again");
    // What was in the room is there, whether or not its caller waited.
    eventually("the jobs that had room", true, async || {
        sender.counts("keep").await.is_ok_and(|counts| counts.ready > 899 && counts.ready < 1_100)
    })
    .await;
}
