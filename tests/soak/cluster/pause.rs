//! A queue is paused and resumed while one of three nodes is cut off from the others: before the
//! call, in the middle of it, when the others have given the node up; the pool or the operator at
//! that node.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use jobq::admin::{Activity, Queues};
use jobq::{Client, JobId, RunningPool, WorkerPool};
use jobq_tests::cluster::Cluster;
use jobq_tests::test_store::{Hasty, Scripted, Step, Store, TestStore, until};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::LONG;
use crate::{is_full, place};

/// The node that is cut off, and another one.
const APART: usize = 0;
const OTHER: usize = 1;
/// Those that are not cut off.
const OTHERS: [usize; 2] = [OTHER, 2];
/// How long the nodes are cut off where they are not to notice.
const BRIEFLY: Duration = Duration::from_secs(3);
/// How long no job may start after the nodes are one cluster again. Pools ask again for three
/// seconds after an event, and every five while a queue is paused.
const WATCHED: Duration = Duration::from_secs(8);
/// How often a call is made before the nodes are joined, unless it is over: an operator at the node
/// that is cut off need not try again, and others are told meanwhile that consumers at that node
/// cannot be asked.
const TRIES: usize = 3;
/// The timeout of the clients: the default one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the node that is cut off. It knows the others.
    Apart,
    /// At that node, and it knows no other.
    Bound,
    /// It starts at that node while that is cut off, and knows no other.
    Late,
    /// At another node.
    Elsewhere,
}

/// When the node is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Just before the call.
    Before,
    /// So many milliseconds after the call began.
    During(u64),
    /// So long before the call that the others have given it up.
    Noticed,
    /// Just before the call, and for so short a time that nobody gives it up.
    Brief,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    pool: Place,
    /// The node of the operator.
    operator: usize,
    cut: Cut,
    /// Whether the node that is cut off leads the queues.
    leads: bool,
}

/// The cases of the short form, and those that the full one has beside them.
fn cases() -> Vec<Case> {
    let case = |pool, operator, cut, leads| Case { pool, operator, cut, leads };
    let mut cases = vec![
        case(Place::Apart, OTHER, Cut::During(fastrand::u64(0..60)), true),
        case(Place::Bound, OTHER, Cut::Noticed, false),
        case(Place::Late, OTHER, Cut::Brief, false),
        case(Place::Elsewhere, APART, Cut::Before, false),
    ];
    if is_full() {
        let during = |most| Cut::During(fastrand::u64(0..most));
        cases.extend([
            case(Place::Apart, OTHER, Cut::Before, true),
            case(Place::Apart, OTHER, Cut::Noticed, false),
            case(Place::Bound, OTHER, during(2_000), true),
            case(Place::Bound, OTHER, Cut::Brief, false),
            case(Place::Late, OTHER, Cut::Noticed, true),
            case(Place::Elsewhere, APART, during(60), false),
            case(Place::Elsewhere, APART, Cut::Noticed, true),
            case(Place::Elsewhere, APART, Cut::Brief, false),
        ]);
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pause_holds_and_ends_while_nodes_are_parted() {
    let test = "a_pause_holds_and_ends_while_nodes_are_parted";
    let lines = "cluster_partition_handling = pause_minority\nnet_ticktime = 8\n";
    let Some(cluster) = Cluster::on_a_network(test, lines).await else {
        return;
    };
    let (all, began) = (cases(), Instant::now());
    for (number, case) in all.iter().enumerate() {
        println!("{number}: {case:?}");
        Round::begin(&cluster, *case).await.play().await;
    }
    let what = place(&Store::on_broker(cluster.url()));
    println!("paused and resumed, {what}: {} times, {:?}", all.len(), began.elapsed());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Pause,
    Resume,
}

/// One case, in a namespace of its own.
struct Round<'c> {
    cluster: &'c Cluster,
    case: Case,
    test: TestStore,
    operator: Client,
    workers: Client,
    pool: Mutex<Option<JoinHandle<RunningPool>>>,
    /// The jobs of the paused queue.
    jobs: Mutex<HashSet<JobId>>,
    began: Instant,
    /// Whether a node stops when it has lost the others. With Khepri it goes on.
    stops: bool,
}

impl<'c> Round<'c> {
    /// The pool consumes, unless it is late.
    async fn begin(cluster: &'c Cluster, case: Case) -> Self {
        let (nodes, network) = (cluster.nodes(), cluster.network());
        let test = TestStore::on(Store::on_broker(nodes[OTHER].url())).await;
        let namespace = test.store.namespace.clone();
        // Queues are led by the node of the client that declares them.
        let leader = client(&nodes[if case.leads { APART } else { OTHER }].url(), &namespace).await;
        leader.declare::<Scripted>().await.unwrap();
        leader.declare::<Hasty>().await.unwrap();
        leader.close().await;
        let operator = client(&nodes[case.operator].url(), &namespace).await;
        let url = match case.pool {
            Place::Apart => cluster.url(),
            Place::Bound | Place::Late => nodes[APART].url(),
            Place::Elsewhere => nodes[OTHER].url(),
        };
        if case.pool == Place::Apart {
            for node in OTHERS {
                network.cut_clients(node);
            }
        }
        let workers = client(&url, &namespace).await;
        let (pool, jobs) = (Mutex::default(), Mutex::default());
        let began = Instant::now();
        let khepri = "erlang:function_exported(rabbit_khepri, is_enabled, 0)
            andalso rabbit_khepri:is_enabled().";
        let stops = nodes[APART].ctl(&["eval", khepri]).await.trim() == "false";
        let round = Self { cluster, case, test, operator, workers, pool, jobs, began, stops };
        if case.pool != Place::Late {
            round.start();
            round.pool_is(Activity::Consuming, &round.workers).await;
        }
        if case.pool == Place::Apart {
            for node in OTHERS {
                network.join_clients(node);
            }
        }
        round.whole().await;
        round
    }

    async fn play(mut self) {
        self.began = Instant::now();
        self.during_a_cut(Call::Pause).await;
        self.tell("the nodes are one cluster");
        self.pool_is(Activity::Paused, &self.test.client).await;
        self.tell("the pool is paused");
        let since = Instant::now();
        while since.elapsed() < WATCHED {
            self.other_queue_runs().await;
        }

        self.began = Instant::now();
        self.during_a_cut(Call::Resume).await;
        self.tell("the nodes are one cluster");
        while !self.jobs().is_empty() {
            let run = self.test.run().await;
            self.jobs().remove(&run.id);
        }
        self.tell("all jobs have run");
        let pool = self.pool.lock().unwrap().take().unwrap();
        pool.await.unwrap().shutdown().await.unwrap();
        for client in [&self.workers, &self.operator, &self.test.client] {
            client.close().await;
        }
    }

    fn tell(&self, what: &str) {
        println!("  {what}: {:.1} s", self.began.elapsed().as_secs_f64());
    }

    fn jobs(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.jobs.lock().unwrap()
    }

    /// Starts the pool, for as long as that takes.
    fn start(&self) {
        let (script, client) = (self.test.script.clone(), self.workers.clone());
        let starting = async move {
            loop {
                let pool = WorkerPool::new(&client).state(script.clone());
                match pool.register::<Scripted>().register::<Hasty>().spawn().await {
                    Ok(running) => return running,
                    Err(error) => println!("  the pool does not start: {error:?}"),
                }
            }
        };
        *self.pool.lock().unwrap() = Some(tokio::spawn(starting));
    }

    /// Makes the call while the node is cut off, and joins the nodes.
    async fn during_a_cut(&self, call: Call) {
        let calling = async {
            let mut tries = if self.case.operator == APART { 1 } else { TRIES };
            while tries > 0 && !self.once(call).await {
                tries -= 1;
            }
            if tries > 0 {
                self.done(call).await;
            }
            tries > 0
        };
        let is_done = self.parted(calling).await;
        if self.case.cut != Cut::Brief {
            if self.stops {
                self.stopped().await;
            }
            self.given_up().await;
        }
        self.cluster.network().join(APART);
        if !is_done {
            self.until_done(call).await;
            self.done(call).await;
        }
        self.whole().await;
    }

    /// Waits until each copy of a queue is there. The queue of a record that was made meanwhile has
    /// two.
    async fn whole(&self) {
        let mut told = 0;
        until("all copies", async || {
            let mut copies = self.cluster.copies(OTHER).await;
            // A record that was made meanwhile gets its third copy when the node has stopped.
            copies.retain(|(name, ..)| self.stops || !name.ends_with("@paused"));
            let missing = copies.iter().filter(|(_, members, online)| members != online).count();
            if missing != told {
                self.tell(&format!("queues that lack a copy: {missing} of {}", copies.len()));
                told = missing;
            }
            (missing == 0).then_some(())
        })
        .await;
    }

    /// The answer, with the node cut off meanwhile, and longer where that is not brief.
    async fn parted<T>(&self, calling: impl Future<Output = T>) -> T {
        let (mut calling, mut answer) = (pin!(calling), None);
        match self.case.cut {
            Cut::Before => self.part(),
            Cut::During(millis) => {
                answer = timeout(Duration::from_millis(millis), &mut calling).await.ok();
                self.part();
            }
            Cut::Noticed => {
                self.part();
                self.given_up().await;
                self.tell("the others have given up the node");
            }
            Cut::Brief => {
                self.part();
                answer = timeout(BRIEFLY, &mut calling).await.ok();
                self.cluster.network().join(APART);
            }
        }
        match answer {
            Some(answer) => answer,
            None => calling.await,
        }
    }

    fn part(&self) {
        self.cluster.network().cut(APART);
        if self.pool.lock().unwrap().is_none() {
            self.start();
        }
    }

    /// Waits until the node has stopped, as `pause_minority` has it. Nodes that are joined while they
    /// give each other up stay two clusters until an operator restarts one of them.
    async fn stopped(&self) {
        let node = &self.cluster.nodes()[APART];
        until("the node that is cut off to stop", async || {
            let running = node.ctl(&["eval", "mnesia:system_info(is_running)."]).await;
            (running.trim() == "no").then_some(())
        })
        .await;
        self.tell("the node has stopped");
    }

    /// Waits until the others have given up the node.
    async fn given_up(&self) {
        let (nodes, name) = (self.cluster.nodes(), self.cluster.nodes()[APART].name());
        until("the end of a node, as the others see it", async || {
            for node in OTHERS {
                if nodes[node].ctl(&["eval", "nodes()."]).await.contains(name) {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    /// Makes the call. True if it did what it should.
    async fn once(&self, call: Call) -> bool {
        let admin = self.operator.admin();
        let answer = match call {
            Call::Pause => admin.pause("scripted", "a deploy").await.map(|paused| {
                println!("  {:?}, stopped: {}", paused.still_taking, paused.stopped.len());
                paused.still_taking == 0
            }),
            Call::Resume => admin.resume("scripted").await.map(|_| true),
        };
        answer.unwrap_or_else(|error| {
            println!("  {call:?}: {error}");
            assert!(error.is_connection() || error.is_timeout(), "{error:?}");
            false
        })
    }

    async fn until_done(&self, call: Call) {
        let calling = async { while !self.once(call).await {} };
        if timeout(LONG, calling).await.is_err() {
            let list = ["list_consumers", "queue_name", "channel_pid", "consumer_tag", "--silent"];
            let channels = ["list_channels", "pid", "connection", "consumer_count", "--silent"];
            let mut consumers = String::new();
            for node in OTHERS.map(|node| &self.cluster.nodes()[node]) {
                consumers += &(node.ctl(&list).await + &node.ctl(&channels).await);
            }
            panic!("{call:?} is not possible, with these consumers:\n{consumers}");
        }
    }

    /// The queue is paused, or resumed.
    async fn done(&self, call: Call) {
        self.tell("the call is over");
        if call == Call::Pause {
            assert!(!self.test.has_run(), "there was no job");
            for _ in 0..3 {
                let job = self.test.enqueue([Step::Succeed]).await;
                self.jobs().insert(job);
            }
        }
    }

    /// Waits until the pool says this of the queue.
    async fn pool_is(&self, state: Activity, asks: &Client) {
        until("the state of the pool", async || {
            let pools = asks.admin().pools(Queues::one("scripted"), Duration::from_secs(2)).await;
            let pools = pools.ok()?.pools;
            let is = pools.first()?.queue("scripted")?.state == state;
            is.then_some(())
        })
        .await;
    }

    /// Waits until the pool has run a job of a queue that is not paused, and none of the other one.
    async fn other_queue_runs(&mut self) {
        let job = Hasty { steps: vec![Step::Succeed] };
        let other = self.test.client.enqueue(job).await.unwrap();
        loop {
            let run = self.test.run().await;
            assert!(!self.jobs().contains(&run.id), "a job of a paused queue ran");
            if run.id == other {
                return;
            }
        }
    }
}

async fn client(url: &str, namespace: &str) -> Client {
    let client = Client::builder(url).namespace(namespace).timeout(PATIENCE);
    client.connect().await.unwrap()
}
