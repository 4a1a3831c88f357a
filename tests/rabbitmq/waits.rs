//! Whether waiting jobs come through is noticed by probes.

use std::time::{Duration, SystemTime};

use jobq::admin::Queues;
use jobq::engine::{Passage, QueueSpec};
use jobq::{Client, Clock, ErrorKind, Finding, Job, RunningPool, Severity};
use jobq_tests::broker::{self, Broker};
use jobq_tests::log_capture::LogCapture;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, until};
use lapin::BasicProperties;

use crate::permissions;

/// What the broker runs to pass on what waits, on this node.
fn workers(call: &str) -> String {
    format!("[sys:{call}(P) || {{_, P, _, _}} <- supervisor:which_children(rabbit_fifo_dlx_sup)].")
}

/// What the one pool says of a queue.
async fn passage(client: &Client, queue: &str) -> Option<Passage> {
    let pools = client.admin().pools(Queues::one(queue), Duration::from_secs(1)).await.ok()?;
    pools.pools.first()?.queue(queue)?.waits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_passes_nothing_on_is_told() {
    let Some(node) = Broker::to_kill("a_broker_that_passes_nothing_on_is_told").await else {
        return;
    };
    let resume = async || drop(node.ctl(&["eval", &workers("resume")]).await);
    standstill_is_told(&node, &workers("suspend"), resume).await;
}

/// As after too many crashes, it does not come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_dead_lettering_is_told_until_the_node_restarts() {
    let test = "the_end_of_dead_lettering_is_told_until_the_node_restarts";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let restart = async || {
        node.ctl(&["stop_app"]).await;
        node.ctl(&["start_app"]).await;
    };
    standstill_is_told(&node, "sys:terminate(rabbit_fifo_dlx_sup, shutdown).", restart).await;
}

/// A pool whose client has a clock of the test's. Its tier of 200 ms is looked at: others have waits
/// of their own by the clock of the broker, which does not advance so fast.
struct Probing {
    test: TestStore,
    clock: Clock,
    client: Client,
    pool: RunningPool,
    tier: String,
    seen: &'static LogCapture,
}

const LATE: [&str; 2] = ["WARN", "probe of waiting jobs is late"];
const STUCK: [&str; 2] = ["ERROR", "queue of waiting jobs is stuck"];
const PASSING: [&str; 2] = ["INFO", "queue of waiting jobs delivers again"];

impl Probing {
    async fn on(node: &Broker) -> Self {
        let seen = LogCapture::log();
        let test = TestStore::on(Store::on_broker(node.url())).await;
        let clock = Clock::stopped_at(SystemTime::now());
        let builder = Client::builder(&test.store.url).namespace(&test.store.namespace);
        let client = builder.clock(clock.clone()).connect().await.unwrap();
        let pool = test.pool_of(&client).spawn().await.unwrap();
        let tier = format!("{}:scripted@wait.200ms", test.store.namespace);
        Self { test, clock, client, pool, tier, seen }
    }

    /// How often this was logged of the tier.
    fn says(&self, line: [&str; 2]) -> usize {
        self.seen.lines(&[line[0], line[1], &self.tier]).len()
    }

    /// Waits until the pool knows this.
    async fn reaches(&self, expected: Passage) {
        until("what the pool knows of waiting jobs", async || {
            self.clock.advance(Duration::from_secs(1));
            (passage(&self.client, "scripted").await == Some(expected)).then_some(())
        })
        .await;
    }

    /// Waits until this is logged once more.
    async fn tells(&self, line: [&str; 2], before: usize) {
        until("the line of the tier", async || {
            self.clock.advance(Duration::from_secs(5));
            (self.says(line) > before).then_some(())
        })
        .await;
    }

    /// Waits until a further probe of the tier is sent.
    async fn sends(&self, raw: &Raw) {
        self.forgets_probes(raw).await;
        self.sends_next(raw).await;
    }

    /// Takes the probes that were sent so far.
    async fn forgets_probes(&self, raw: &Raw) {
        let probes = format!("{}.probe", self.test.store.namespace);
        while raw.take(&probes).await.is_some() {}
    }

    /// Waits for the next probe of the tier that nobody has taken. The time goes on slowly, so that
    /// this one is seen before it is late.
    async fn sends_next(&self, raw: &Raw) {
        let probes = format!("{}.probe", self.test.store.namespace);
        until("a probe", async || {
            self.clock.advance(Duration::from_secs(1));
            (raw.take(&probes).await? == "scripted@200@probe").then_some(())
        })
        .await;
    }
}

/// Stops what passes on jobs that wait, by an expression for the broker, and mends it.
async fn standstill_is_told(node: &Broker, stop: &str, mend: impl AsyncFnOnce()) {
    let mut probing = Probing::on(node).await;
    probing.reaches(Passage::Passing).await;
    node.ctl(&["eval", stop]).await;
    let before = [LATE, STUCK, PASSING].map(|line| probing.says(line));
    let test = &mut probing.test;
    let job = test.enqueue([Step::Fail("no".to_owned()), Step::Succeed]).await;
    assert_eq!(test.run().await.id, job);
    probing.tells(LATE, before[0]).await;
    stays::<Scripted>(&probing.client, "a pool reports that ").await;
    probing.tells(STUCK, before[1]).await;
    probing.reaches(Passage::Stuck).await;
    stays::<Scripted>(&probing.client, "a pool reports that jobs do not leave").await;
    let report = probing.client.doctor().await.unwrap();
    let is_told = |found: &&Finding| {
        found.about() == "the tiers of queue `scripted`" && found.severity() == Severity::Error
    };
    assert_eq!(report.findings().iter().filter(is_told).count(), 1, "{report}");
    assert!(!probing.test.has_run());
    mend().await;
    assert_eq!(probing.test.end().await, job);
    probing.tells(PASSING, before[2]).await;
    probing.pool.shutdown().await.unwrap();
}

/// None counts on a connection of less than ten seconds, in an alarm, and after the end of the
/// connection on which it would have come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_that_something_else_holds_up_do_not_count() {
    let test = "probes_that_something_else_holds_up_do_not_count";
    let Some(node) = Broker::to_kill(test).await else {
        return;
    };
    let mut probing = Probing::on(&node).await;
    // While jobs wait in the tier and come through, none is sent.
    let raw = Raw::connect(&node.url()).await;
    probing.clock.advance(Duration::from_secs(9));
    for _ in 0..5 {
        probing.test.enqueue([Step::Fail("no".to_owned()), Step::Succeed]).await;
        probing.test.end().await;
    }
    assert_eq!(raw.take(&format!("{}.probe", probing.test.store.namespace)).await, None);
    probing.reaches(Passage::Passing).await;

    node.ctl(&["eval", &workers("suspend")]).await;
    probing.sends(&raw).await;
    let told = || [LATE, STUCK].map(|line| probing.says(line));
    let before = told();
    node.ctl(&["set_vm_memory_high_watermark", "0.00001"]).await;
    until("the alarm to be told", async || {
        let asked = probing.client.admin().pools(Queues::All, Duration::from_secs(1)).await;
        asked.err()?.to_string().contains("low on memory").then_some(())
    })
    .await;
    probing.clock.advance(Duration::from_secs(300));
    node.ctl(&["set_vm_memory_high_watermark", "0.9"]).await;
    // Those on their way are judged before another one is sent.
    probing.sends(&raw).await;
    assert_eq!(told(), before, "in an alarm");

    node.ctl(&["close_all_connections", "a test"]).await;
    let raw = Raw::connect(&node.url()).await;
    until("the pool", async || passage(&probing.client, "scripted").await).await;
    probing.forgets_probes(&raw).await;
    // Those that were on their way would be late now, and none is sent on the new connection yet.
    probing.clock.advance(Duration::from_secs(31));
    probing.sends_next(&raw).await;
    assert_eq!(told(), before, "after the end of the connection");

    node.ctl(&["eval", &workers("resume")]).await;
    probing.reaches(Passage::Passing).await;
    probing.pool.shutdown().await.unwrap();
}

/// Its jobs wait and come through all the same. The next connection tries it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_may_not_declare_the_queue_of_probes_says_so_once() {
    let test = "a_pool_that_may_not_declare_the_queue_of_probes_says_so_once";
    let Some(node) = broker::shared_with_ctl(test).await else { return };
    let seen = LogCapture::log();
    let mut test = permissions::declared(Store::on_broker(node.url())).await;
    let (space, user) = (test.store.namespace.clone(), broker::namespace());
    node.ctl(&["add_user", &user, "secret"]).await;
    let own = format!("^{space}\\.control\\.");
    node.ctl(&["set_permissions", &user, &own, ".*", ".*"]).await;
    let clock = Clock::stopped_at(SystemTime::now());
    let url = node.url().replace("amqp://", &format!("amqp://{user}:secret@"));
    let builder = Client::builder(url).namespace(&space).clock(clock.clone());
    let pool = test.pool_of(&builder.connect().await.unwrap()).spawn().await.unwrap();

    let probes = format!("{space}.probe");
    let refused = format!("access to queue '{probes}' in vhost '/' refused");
    Raw::connect(&node.url()).await.delete(&probes).await;
    for _ in 0..3 {
        let before = node.log().matches(&refused).count();
        until("a refusal", async || {
            clock.advance(Duration::from_secs(1));
            (node.log().matches(&refused).count() > before).then_some(())
        })
        .await;
        node.ctl(&["close_all_user_connections", &user, "a test"]).await;
    }
    let said = ["WARN", "cannot detect stuck waiting jobs", &probes];
    assert_eq!(seen.lines(&said).len(), 1, "{}", seen.text());
    let job = test.enqueue([Step::Fail("no".to_owned()), Step::Succeed]).await;
    assert_eq!(test.end().await, job);
    pool.shutdown().await.unwrap();
}

/// A subscriber is not deleted, and at last for this reason: probes that wait are counted as jobs.
async fn stays<J: Job>(client: &Client, why: &str) {
    until(why, async || {
        let error = client.delete_subscriber::<J>().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
        error.to_string().contains(why).then_some(())
    })
    .await;
}

/// The doctor's findings about jobs that stay where they are.
async fn held_back(client: &Client) -> Vec<String> {
    let report = client.doctor().await.unwrap();
    let found = report.findings().iter().map(ToString::to_string);
    found.filter(|found| found.contains("jobs are due but do not leave")).collect()
}

/// Without a pool there are no probes. The API's figures are of a moment before: the first one of
/// those that are asked for has none of the jobs that have just gone into nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_passes_nothing_on_is_found_without_pools() {
    let test = "a_broker_that_passes_nothing_on_is_found_without_pools";
    let Some((node, management)) = Broker::with_management(test).await else { return };
    let mut test = TestStore::on(Store::on_broker(node.url())).await;
    let space = test.store.namespace.clone();
    let builder = Client::builder(node.url()).namespace(&space).timeout(DEADLINE);
    let operator = builder.management(management).connect().await.unwrap();
    let pool = test.pool().spawn().await.unwrap();
    let job = test.enqueue([Step::Fail("no".to_owned()), Step::Succeed]).await;
    assert_eq!(test.end().await, job);
    assert!(held_back(&operator).await.is_empty());
    node.ctl(&["eval", &workers("suspend")]).await;

    // It was nacked: the broker has it in no queue that AMQP shows.
    test.enqueue([Step::Fail("no".to_owned())]).await;
    while test.run().await.id == job {}
    pool.shutdown().await.unwrap();
    until("the job to be out of sight", async || {
        test.client.counts("scripted").await.unwrap().is_empty().then_some(())
    })
    .await;
    stays::<Scripted>(&operator, &format!("1 messages in `{space}:scripted`")).await;
    // It waits in the tier no longer.
    let later = Scripted { steps: vec![Step::Succeed] };
    test.client.enqueue(later).delay(Duration::from_millis(200)).await.unwrap();
    let found = until("both queues", async || {
        let found = held_back(&operator).await;
        let has =
            |name: &str| found.iter().any(|found| found.contains(&format!("{space}:{name}`")));
        (has("scripted") && has("scripted@wait.200ms")).then_some(found)
    })
    .await;
    let [found] = &found[..] else { panic!("one node: {found:?}") };
    assert!(found.contains(&format!("node `{}`", node.name())), "{found}");
    node.ctl(&["eval", &workers("resume")]).await;
    until("nothing to be held back", async || held_back(&operator).await.is_empty().then_some(()))
        .await;
    until("both jobs", async || {
        (test.client.counts("scripted").await.unwrap().ready == 2).then_some(())
    })
    .await;
    stays::<Scripted>(&operator, "2 jobs ready").await;
    assert_eq!(operator.delete_subscriber::<Scripted>().force().await.unwrap(), 2);
}

/// They come to no queue of jobs, and to nobody who moves what has no queue, also of an earlier
/// version.
#[tokio::test(flavor = "multi_thread")]
async fn probes_end_in_their_own_queue() {
    let url = broker::shared().await;
    let namespace = broker::namespace();
    let engine = jobq::engine::conformance::open(&url, &namespace).await.expect("opens");
    let spec = QueueSpec::new("mail").waits([Duration::from_millis(200)]);
    engine.declare(&[spec]).await.expect("declares");
    engine.declare_delays(Duration::MAX).await.expect("declares");
    let raw = Raw::connect(&url).await;
    let probes = format!("{namespace}.probe");
    // Twice: as they are sent, and as they come back.
    let table = [
        ("control", "probe", 1),
        ("retry", "mail@200@probe", 2),
        ("level.0", "0.0.0.0.0.0.0.2.p", 2),
        ("level.1", "0.0.0.0.0.0.1.0.p", 2),
    ];
    for (exchange, key, times) in table {
        let exchange = format!("{namespace}.{exchange}");
        raw.publish(&exchange, key, BasicProperties::default(), b"").await;
        for _ in 0..times {
            let came = until("the probe", async || raw.take(&probes).await).await;
            assert_eq!(came, key);
        }
    }
    for queue in [".orphan", ":mail", ":mail@due", ":mail@failed", ":orphan@failed"] {
        let queue = format!("{namespace}{queue}");
        assert_eq!(raw.take(&queue).await, None, "{queue}");
    }
}
