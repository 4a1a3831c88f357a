//! Namespaces share a cluster whose nodes are replaced, stopped and killed.
//!
//! A node may stop passing on what waits, on 3.10 even by an ordinary restart. The jobs are not
//! lost, the pools tell it in time, and what docs/operations.md says repairs it. Before 3.12.5, a queue may
//! dead-letter to a member on a dead node for ever, of which no pool learns: docs/rabbitmq.md.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jobq::admin::Queues;
use jobq::engine::Passage;
use jobq::{Client, RunningPool};
use jobq_tests::broker::Broker;
use jobq_tests::cluster::Cluster;
use jobq_tests::jobs::soak_job::{self, Load};
use jobq_tests::ledger::Ledger;
use jobq_tests::test_store::Store;
use tokio::time::{sleep, timeout};

use super::partition::Fault;
use super::{LONG, first_job};
use crate::{Books, is_full, place};

/// How soon pools tell that jobs do not come through.
const TOLD: Duration = Duration::from_secs(120);
/// A repair may be the next disturbance.
const REPAIRS: usize = 4;
/// How many jobs of each namespace are accepted and end, before a node is down and meanwhile.
const PROGRESS: usize = 20;
/// How many enqueue, in all namespaces together.
const CALLERS: usize = 10;
/// How many open jobs of a namespace are printed.
const OPEN_JOBS: usize = 30;
/// Starts the members that do not run, of all queues with a copy on a node.
const START_MEMBERS: &str = "[{N, ra:restart_server(quorum_queues, {N, node()})} || \
    Q <- rabbit_amqqueue:list_by_type(rabbit_quorum_queue), {N, _} <- [amqqueue:get_pid(Q)], \
    whereis(N) =:= undefined].";
/// The supervisor of dead letters of each node that runs, and what its members are.
const SUPERVISORS_AND_MEMBERS: &str = "[{N, rpc:call(N, erlang, whereis, [rabbit_fifo_dlx_sup]), \
    rpc:call(N, ets, tab2list, [ra_state])} || N <- [node() | nodes()]].";

/// The queues that dead-letter messages to a member on a node that is not there, with how many.
const DEAD_TARGETS: &str = "[{element(4, element(2, State)), maps:size(element(8, State))} || \
    whereis(rabbit_fifo_dlx_sup) =/= undefined, \
    {_, Worker, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup), is_pid(Worker), \
    State <- [sys:get_state(Worker)], maps:size(element(8, State)) > 0, \
    {_, {ctx, rabbit_quorum_queue, _, Target}} <- maps:to_list(element(2, element(7, State))), \
    element(3, Target) =:= undefined, \
    not lists:member(element(2, hd(element(3, element(2, Target)))), [node() | nodes()])].";

/// A disturbance of a node, while the others go on.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    Replaced,
    Stopped,
    Killed,
    /// The end of dead-lettering, as after too many crashes; it stays away.
    Unsupervised,
}

use Disturbance::{Killed, Replaced, Stopped, Unsupervised};

/// A namespace with a pool, and its ledger.
struct Namespace {
    client: Client,
    running: RunningPool,
    ledger: Ledger,
    books: Books,
    /// When its pool told that a tier or level is late, since the nodes are back.
    told: Option<Duration>,
}

impl Namespace {
    /// With all levels, or with those that its jobs need.
    async fn open(store: &Store, has_all_levels: bool) -> Self {
        let (client, workers) = (store.client().await, store.client().await);
        let mut books = Books::open();
        let ledger = Ledger::open(&books.path, "pool").unwrap();
        let running = soak_job::pool(&workers, &ledger).spawn().await.unwrap();
        if has_all_levels {
            // It goes on from where it ended.
            let levels = async { while client.declare_delays().await.is_err() {} };
            assert!(timeout(LONG, levels).await.is_ok(), "the levels cannot be made");
        }
        first_job(&mut books, &client, &ledger).await;
        Self { client, running, ledger, books, told: None }
    }

    /// Whether all jobs have ended.
    fn is_over(&mut self) -> bool {
        self.books.account.read(&self.books.path);
        self.books.account.is_over()
    }

    /// Whether the pool knows that jobs come out of each tier and level, and all have ended.
    async fn comes_through(&mut self, since: Instant) -> bool {
        let passages = self.passages().await.unwrap_or([Passage::Unknown; 2]);
        if passages.iter().any(|passage| *passage > Passage::Passing) {
            self.told.get_or_insert(since.elapsed());
        }
        self.is_over() && passages == [Passage::Passing; 2]
    }

    /// The pool's report of the tiers of its queue, and of the levels.
    async fn passages(&self) -> Option<[Passage; 2]> {
        let admin = self.client.admin();
        let pools = admin.pools(Queues::one("soak_job"), Duration::from_secs(5)).await.ok()?.pools;
        let pool = pools.first()?;
        Some([pool.queue("soak_job")?.waits?, pool.levels?])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waits_in_namespaces_comes_through_or_is_told_when_nodes_come_and_go() {
    let test = "what_waits_in_namespaces_comes_through_or_is_told_when_nodes_come_and_go";
    let Some(mut cluster) = Cluster::to_kill(test).await else {
        return;
    };
    let mut namespaces = Vec::new();
    let plan: &[(usize, &[Disturbance])] = if is_full() {
        let all = &[Replaced, Stopped, Killed, Unsupervised];
        &[(1, all), (3, all), (10, all)]
    } else {
        &[(1, &[Unsupervised, Replaced]), (3, &[Stopped]), (10, &[Killed])]
    };
    let (mut times, mut expected, mut repairs) = (0, 0, 0);
    for (count, disturbances) in plan {
        while namespaces.len() < *count {
            // Three with the most queues that a namespace has, and two processors, are enough.
            let has_all_levels = is_full() && namespaces.len() < 3;
            let store = Store::on_broker(cluster.url());
            namespaces.push(Namespace::open(&store, has_all_levels).await);
        }
        for disturbance in *disturbances {
            cluster.whole(0).await;
            // A queue whose nodes are killed in its first moments may not come back.
            sleep(Duration::from_secs(3)).await;
            let what = format!("{disturbance:?}, {count} namespaces");
            repairs += round(&mut cluster, &mut namespaces, *disturbance, &what).await;
            times += 1;
            expected += usize::from(matches!(disturbance, Unsupervised));
        }
    }
    let where_ = place(&Store::on_broker(cluster.url()));
    println!("{where_}: {times} disturbances, {repairs} repairs");
    for (number, mut namespace) in namespaces.into_iter().enumerate() {
        let what = format!("nodes come and go, namespace {number}, {where_}");
        let report = namespace.books.close(&what, times, &namespace.client).await;
        namespace.running.shutdown().await.unwrap();
        report.assert_nothing_lost();
    }
    let is_fragile = cluster.nodes()[0].ctl(&["version"]).await.starts_with("3.10");
    assert!(repairs == expected || is_fragile && repairs > expected, "{repairs} repairs");
}

/// Disturbs the cluster under load, and returns how many repairs it took until all came through.
async fn round(
    cluster: &mut Cluster,
    namespaces: &mut [Namespace],
    disturbance: Disturbance,
    what: &str,
) -> usize {
    let began = Instant::now();
    let callers = (CALLERS / namespaces.len()).max(1);
    let load = |namespace: &Namespace| Load::start(&namespace.client, &namespace.ledger, callers);
    let loads: Vec<_> = namespaces.iter().map(load).collect();
    go_on(cluster, namespaces, "the load does not begin").await;
    let fault = |namespace: &Namespace| Fault::begin(&namespace.ledger);
    let faults: Vec<_> = namespaces.iter().map(fault).collect();
    disturb(cluster, namespaces, disturbance).await;
    for load in loads {
        load.stop().await;
    }
    println!("{what}: {} s until the nodes are back", began.elapsed().as_secs());
    let mut repairs = 0;
    while !come_through(cluster, namespaces, what).await {
        assert!(repairs < REPAIRS, "{what}: what the docs say repairs nothing");
        repair(cluster).await;
        repairs += 1;
    }
    for fault in faults {
        fault.end().await;
    }
    repairs
}

async fn disturb(cluster: &mut Cluster, namespaces: &mut [Namespace], disturbance: Disturbance) {
    let without = "two nodes do not go on without the third";
    // The others use the epmd of the first one.
    let node = fastrand::usize(1..cluster.nodes().len());
    match disturbance {
        Replaced => {
            cluster.nodes()[node].stop();
            go_on(cluster, namespaces, without).await;
            cluster.replace(node).await;
        }
        Stopped | Killed => {
            let node = &cluster.nodes()[node];
            let end = if matches!(disturbance, Stopped) { Broker::stop } else { Broker::kill };
            end(node);
            go_on(cluster, namespaces, without).await;
            node.restart().await;
        }
        Unsupervised => {
            // Leaders move when nodes are away, and a node may lead no queue that is used.
            let leads = leads_retries(cluster).await;
            let node = cluster.nodes().iter().find(|node| node.name() == leads);
            let end = "sys:terminate(rabbit_fifo_dlx_sup, shutdown).";
            node.expect("a leader is a node").ctl(&["eval", end]).await;
        }
    }
    go_on(cluster, namespaces, "three nodes do not go on").await;
}

/// Waits until some more jobs of each namespace were accepted and have ended.
async fn go_on(cluster: &Cluster, namespaces: &mut [Namespace], or: &str) {
    let before: Vec<_> = namespaces.iter().map(|it| it.books.account.progress()).collect();
    let progress = namespaces.iter_mut().map(|namespace| namespace.books.progress(PROGRESS));
    if timeout(LONG, join_all(progress)).await.is_ok() {
        return;
    }
    println!("accepted and ended before: {before:?}");
    show(cluster, namespaces).await;
    panic!("{or}");
}

/// Prints what each namespace has and what its pool reports, and what the broker has.
async fn show(cluster: &Cluster, namespaces: &mut [Namespace]) {
    for (number, namespace) in namespaces.iter_mut().enumerate() {
        let (is_over, passages) = (namespace.is_over(), namespace.passages().await);
        let (progress, health) = (namespace.books.account.progress(), namespace.running.health());
        println!("{number}: {progress:?}, over: {is_over}, waits: {passages:?}, {health:?}");
        for job in namespace.books.account.open_jobs().take(OPEN_JOBS) {
            println!("{number}: open: {job}");
        }
    }
    // A node may be down.
    println!("{}", cluster.nodes()[0].ctl(&["eval", SUPERVISORS_AND_MEMBERS]).await);
    let columns = [
        "list_queues",
        "name",
        "messages",
        "messages_ready",
        "leader",
        "members",
        "online",
        "--silent",
    ];
    println!("{}", cluster.nodes()[0].ctl(&columns).await);
}

/// Waits until all jobs have ended, and come out of each tier and level. False if some still do not
/// when their pools must have told it.
async fn come_through(cluster: &Cluster, namespaces: &mut [Namespace], what: &str) -> bool {
    let since = Instant::now();
    for namespace in &mut *namespaces {
        namespace.told = None;
    }
    loop {
        let mut missing = Vec::new();
        for (number, namespace) in namespaces.iter_mut().enumerate() {
            if !namespace.comes_through(since).await {
                missing.push((number, namespace.told));
            }
        }
        let seconds = since.elapsed().as_secs();
        if missing.is_empty() {
            println!("{what}: all come through after {seconds} s");
            return true;
        }
        if since.elapsed() > TOLD {
            println!("{what}: these do not after {seconds} s, told after: {missing:?}");
            let all_told = missing.iter().all(|(_, told)| told.is_some());
            if !all_told && !dead_letters_to_the_dead(cluster).await {
                show(cluster, namespaces).await;
                panic!("{what}: a pool does not tell what stands still: {missing:?}");
            }
            return false;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// The runbook of docs/operations.md: the nodes restart that lead what stands still, and members start
/// that do not run.
async fn repair(cluster: &Cluster) {
    let columns = ["messages", "messages_ready", "messages_unacknowledged", "leader", "--silent"];
    let list = cluster.nodes()[0].ctl(&[&["list_queues"], &columns[..]].concat()).await;
    let leaders: BTreeSet<_> = list.lines().filter_map(leader_of_still).collect();
    for node in cluster.nodes() {
        if leaders.contains(node.name()) || !has_supervisor(node).await {
            println!("repair: restart of {}", node.name());
            node.ctl(&["stop_app"]).await;
            node.ctl(&["start_app"]).await;
        }
    }
    for node in cluster.nodes() {
        let started = node.ctl(&["eval", START_MEMBERS]).await;
        println!("repair: members of {} that did not run: {}", node.name(), started.trim());
    }
}

async fn has_supervisor(node: &Broker) -> bool {
    node.ctl(&["eval", "whereis(rabbit_fifo_dlx_sup)."]).await.trim() != "undefined"
}

/// The node that leads the tier of first retries of a namespace, through which many jobs go.
async fn leads_retries(cluster: &Cluster) -> String {
    let list = ["list_queues", "name", "leader", "--silent"];
    let list = cluster.nodes()[0].ctl(&list).await;
    let of_retries = |(name, _): &(&str, &str)| name.ends_with("@wait.200ms");
    let found = list.lines().filter_map(|line| line.split_once('\t')).find(of_retries);
    found.expect("there is a tier").1.to_owned()
}

/// The leader of a queue that holds messages which are neither ready nor with a consumer.
fn leader_of_still(line: &str) -> Option<&str> {
    let words: Vec<_> = line.split('\t').collect();
    let [messages, ready, unacknowledged, leader] = words[..] else { return None };
    let count = |text: &str| text.parse::<u64>().unwrap_or(0);
    (count(messages) > count(ready) + count(unacknowledged)).then_some(leader)
}

/// Whether a queue dead-letters to a member on a node that is not there, and knows no other one. The
/// terms are those of 3.10.
async fn dead_letters_to_the_dead(cluster: &Cluster) -> bool {
    for node in cluster.nodes() {
        if node.ctl(&["version"]).await.starts_with("3.10") {
            let found = node.ctl(&["eval", DEAD_TARGETS]).await;
            println!("{} dead-letters to nodes that are not there: {}", node.name(), found.trim());
            if found.trim() != "[]" {
                return true;
            }
        }
    }
    false
}
