//! Private clusters of three RabbitMQ nodes.

use std::thread;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::broker::{Broker, blocking, given_url, setting, skipped_for, unique};
use crate::network::Network;
use crate::place::Place;
use crate::test_store::until;

const NODES: usize = 3;
/// One cluster at a time is as much as a small machine can bear.
static TURN: Semaphore = Semaphore::const_new(1);

/// Three nodes that know each other. Dropping it ends them and removes their data.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Broker>,
    network: Option<Network>,
    _turn: SemaphorePermit<'static>,
}

impl Cluster {
    /// Starts three nodes, for a test that kills them; `None`, said aloud, where the tests
    /// run on a broker that is not theirs to kill.
    pub async fn to_kill(test: &str) -> Option<Self> {
        if given_url().is_some() {
            skipped_for(test, "a private cluster");
            return None;
        }
        let turn = turn().await;
        let epmd_port = Place::default().epmd_port;
        let place = move |index| Place { epmd_port, has_epmd: index == 0, ..Place::default() };
        let nodes = blocking(move || start(&place, "")).await;
        Some(Self { nodes, network: None, _turn: turn }.joined().await)
    }

    /// The same with a network that can be cut, and these lines in each `rabbitmq.conf`;
    /// `None`, said aloud, where the machine does not allow that.
    pub async fn on_a_network(test: &str, lines: &str) -> Option<Self> {
        if given_url().is_some() {
            skipped_for(test, "a private cluster");
            return None;
        }
        let turn = turn().await;
        let network = match Network::new(NODES) {
            Ok(network) => network,
            Err(reason) => {
                skipped_for(test, &format!("network namespaces, as root on Linux: {reason}"));
                return None;
            }
        };
        // Its clients come from another address than its own.
        let lines = format!("loopback_users = none\n{lines}");
        let (nodes, network) =
            blocking(move || (start(&|index| network.place(index), &lines), network)).await;
        Some(Self { nodes, network: Some(network), _turn: turn }.joined().await)
    }

    /// A node that does not find the first one begins alone, and would do as well.
    async fn joined(self) -> Self {
        let status = self.nodes[0].ctl(&["cluster_status"]).await;
        for node in &self.nodes {
            assert!(status.contains(node.name()), "{} is no part of {status}", node.name());
        }
        self
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Broker] {
        &self.nodes
    }

    /// The network between its nodes.
    ///
    /// # Panics
    ///
    /// If it was made without one.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("the cluster is on a network of its own")
    }

    /// Where clients connect to: all nodes in one URL.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(Broker::host).collect();
        format!("amqp://{}", hosts.join(","))
    }

    /// The number of the node that leads a queue, as this one sees it.
    pub async fn leader(&self, queue: &str, seen_by: usize) -> usize {
        until("a leader of the queue", async || {
            let list =
                self.nodes[seen_by].ctl(&["list_queues", "name", "leader", "--silent"]).await;
            let mut lines = list.lines().filter_map(|line| line.split_once('\t'));
            let (_, leader) = lines.find(|(name, _)| *name == queue)?;
            self.nodes.iter().position(|node| node.name() == leader)
        })
        .await
    }

    /// Every queue that has copies, with the number of nodes that have one, and of those of them
    /// that are there, as this node sees it.
    pub async fn copies(&self, seen_by: usize) -> Vec<(String, usize, usize)> {
        let fields = ["list_queues", "name", "type", "members", "online", "--silent"];
        let list = self.nodes[seen_by].ctl(&fields).await;
        let count = |text: &str| text.matches('@').count();
        let line = |line: &str| {
            let mut words = line.split('\t');
            let name = words.next()?.to_owned();
            // A control queue is one node's, and ends with its connection.
            words.next().filter(|kind| kind.contains("quorum"))?;
            Some((name, count(words.next()?), count(words.next()?)))
        };
        list.lines().filter_map(line).collect()
    }

    /// Replaces a node that is down by one without data, which has its address for clients: the
    /// others forget the old one, and give the new one a copy of each queue.
    ///
    /// # Panics
    ///
    /// If it is the first one, whose epmd the others use; if the new one does not join.
    pub async fn replace(&mut self, index: usize) {
        let old = self.nodes[index].node().clone();
        assert!(!old.place.has_epmd, "the others use its epmd");
        self.nodes[0].ctl(&["forget_cluster_node", &old.name]).await;
        let files = files("", Some(self.nodes[0].name()));
        let node = old.successor(&unique());
        let name = node.name.clone();
        self.nodes[index] = blocking(move || Broker::of_node(node, files)).await;
        until("a copy of each queue on the new node", async || {
            self.nodes[0].node().run("rabbitmq-queues", &["grow", &name, "all"]).await;
            let copies = self.copies(0).await;
            copies.iter().all(|(_, members, _)| *members == NODES).then_some(())
        })
        .await;
    }

    /// Waits until each queue has all its copies, as this node sees it.
    pub async fn whole(&self, seen_by: usize) {
        until("all copies of all queues", async || {
            let copies = self.copies(seen_by).await;
            let whole =
                |(_, members, online): &(_, usize, usize)| (*members, *online) == (NODES, NODES);
            copies.iter().all(whole).then_some(())
        })
        .await;
    }
}

async fn turn() -> SemaphorePermit<'static> {
    TURN.acquire().await.expect("it is never closed")
}

/// The first node, and then the others, which join it.
fn start(place: &(dyn Fn(usize) -> Place + Sync), lines: &str) -> Vec<Broker> {
    let first = Broker::start_at(place(0), |_| files(lines, None));
    let join = |index| Broker::start_at(place(index), |_| files(lines, Some(first.name())));
    let others: Vec<_> = thread::scope(|scope| {
        let starting: Vec<_> = (1..NODES).map(|index| scope.spawn(move || join(index))).collect();
        starting.into_iter().map(|node| node.join().expect("the node starts")).collect()
    });
    std::iter::once(first).chain(others).collect()
}

/// The files of a node with these lines in its `rabbitmq.conf`, which joins another one.
fn files(lines: &str, joins: Option<&str>) -> Vec<(&'static str, String)> {
    let discovery = joins.map_or_else(String::new, |other| {
        format!(
            "cluster_formation.peer_discovery_backend = classic_config\n\
             cluster_formation.classic_config.nodes.1 = {other}\n"
        )
    });
    // Else what was passed on too soon, when a node dies, comes three minutes later.
    let advanced = setting("dead_letter_worker_publisher_confirm_timeout", 500);
    vec![("rabbitmq.conf", format!("{discovery}{lines}")), ("advanced.config", advanced)]
}
