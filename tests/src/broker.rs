//! Private RabbitMQ nodes: own name, ports, data and epmd, gone with the test process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

pub use crate::node::Node;
use crate::node::{ADVANCED, Keeper};
use crate::place::Place;
use crate::port::free_port;

/// A private RabbitMQ node. Dropping it ends the node and removes its data.
#[derive(Debug)]
pub struct Broker {
    node: Node,
    keeper: Mutex<Keeper>,
}

impl Broker {
    /// Starts a node and returns when it takes connections.
    ///
    /// # Panics
    ///
    /// Where RabbitMQ is not installed or does not start; with the tail of its log.
    pub async fn start() -> Self {
        blocking(|| Self::start_now(|_| Vec::new())).await
    }

    /// [`start`](Self::start) of the RabbitMQ that is installed under this root.
    pub async fn start_in(root: PathBuf) -> Self {
        blocking(|| Self::start_node(Place::default(), Some(root), |_| Vec::new())).await
    }

    /// A node for a test that kills it; `None`, said aloud, where the tests run on a
    /// broker that is not theirs to kill (`JOBQ_TEST_AMQP_URL`).
    pub async fn to_kill(test: &str) -> Option<Self> {
        Self::with_files(test, |_| Vec::new()).await
    }

    /// [`to_kill`](Self::to_kill) with further files in the broker's folder, whose path the
    /// closure is given; a `rabbitmq.conf` adds to what it has.
    pub async fn with_files(
        test: &str,
        files: impl FnOnce(&Path) -> Vec<(&'static str, String)> + Send + 'static,
    ) -> Option<Self> {
        if given_url().is_none() {
            return Some(blocking(|| Self::start_now(files)).await);
        }
        skipped(test);
        None
    }

    /// [`to_kill`](Self::to_kill) with the management API, and its URL.
    pub async fn with_management(test: &str) -> Option<(Self, String)> {
        if given_url().is_none() {
            return Some(blocking(|| Self::start_with_management(None)).await);
        }
        skipped(test);
        None
    }

    /// [`with_management`](Self::with_management) of this machine's own RabbitMQ, whichever version the
    /// tests run on.
    pub async fn of_this_machine(test: &str) -> Option<(Self, String)> {
        if given_url().is_none() {
            return Some(blocking(|| Self::start_with_management(Some(PathBuf::new()))).await);
        }
        skipped(test);
        None
    }

    fn start_with_management(root: Option<PathBuf>) -> (Self, String) {
        let port = free_port();
        let plugins = ("plugins", "[rabbitmq_management].".to_owned());
        let listens = format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n");
        let files = |_: &Path| vec![plugins, ("rabbitmq.conf", listens)];
        let node = Self::start_node(Place::default(), root, files);
        (node, format!("http://127.0.0.1:{port}"))
    }

    fn start_now(files: impl FnOnce(&Path) -> Vec<(&'static str, String)>) -> Self {
        Self::start_at(Place::default(), files)
    }

    /// A node at this place. It is not a test's own: see [`to_kill`](Self::to_kill).
    pub(crate) fn start_at(
        place: Place,
        files: impl FnOnce(&Path) -> Vec<(&'static str, String)>,
    ) -> Self {
        Self::start_node(place, None, files)
    }

    fn start_node(
        place: Place,
        root: Option<PathBuf>,
        files: impl FnOnce(&Path) -> Vec<(&'static str, String)>,
    ) -> Self {
        let node = Node::new(&unique(), place, root);
        let files = files(&node.dir);
        Self::of_node(node, files)
    }

    /// Starts this node with further files.
    pub(crate) fn of_node(node: Node, files: Vec<(&'static str, String)>) -> Self {
        let keeper = node.spawn_keeper(files);
        let broker = Self { node, keeper: Mutex::new(keeper) };
        let pid = broker.tell("start");
        broker.node.await_ready(&pid);
        broker
    }

    /// The node itself, as long as the broker lives.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        self.node.url()
    }

    /// The host and the port that clients connect to.
    pub fn host(&self) -> String {
        self.node.host()
    }

    /// What the other nodes of its cluster call it.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// Ends the broker as a crash would, and returns when it is gone.
    pub fn kill(&self) {
        self.tell("kill");
    }

    /// Ends the broker in good order, and returns when it is gone.
    pub fn stop(&self) {
        self.tell("stop");
    }

    /// Starts the broker again, after [`kill`](Self::kill) or [`stop`](Self::stop), with
    /// the data and the ports that it had.
    pub async fn restart(&self) {
        let (node, pid) = (self.node.clone(), self.tell("start"));
        blocking(move || node.await_ready(&pid)).await;
    }

    /// Sets a number of the broker's application `rabbit`, from its next start on.
    pub fn set(&self, key: &str, number: u32) {
        let file = self.node.outside(&self.node.dir.join(ADVANCED));
        fs::write(file, setting(key, number)).expect("the broker's files can be written");
    }

    /// Replaces a file in the broker's folder, for its next start.
    pub fn replace(&self, name: &str, content: &str) {
        let file = self.node.outside(&self.node.dir.join(name));
        fs::write(file, content).expect("the broker's files can be written");
    }

    /// What the broker wrote to its log and its output.
    pub fn log(&self) -> String {
        self.node.log()
    }

    /// Runs `rabbitmqctl` on this broker and gives what it printed.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        self.node.ctl(arguments).await
    }

    fn tell(&self, command: &str) -> String {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        keeper.tell(command)
    }
}

/// The content of an `advanced.config` that sets a number of the application `rabbit`.
pub(crate) fn setting(key: &str, number: u32) -> String {
    format!("[{{rabbit, [{{{key}, {number}}}]}}].")
}

/// The variable that describes the nodes of a run.
const SHARED: &str = "JOBQ_TEST_SHARED_BROKERS";

/// The nodes that tests share: those of one process, or of all that `with_brokers` runs.
#[derive(Debug)]
pub struct SharedBrokers {
    plain: Broker,
    managed: Broker,
    management: String,
}

/// [`SharedBrokers`] as other processes see them.
#[derive(Debug, Serialize, Deserialize)]
struct SharedNodes {
    plain: Node,
    managed: Node,
    management: String,
}

impl SharedBrokers {
    /// Starts them side by side.
    pub async fn start() -> Self {
        let plain = Broker::start();
        let managed = blocking(|| Broker::start_with_management(None));
        let (plain, (managed, management)) = tokio::join!(plain, managed);
        Self { plain, managed, management }
    }

    /// The variable by which the processes that are started with it find these nodes.
    ///
    /// # Panics
    ///
    /// Never: the description of a node is JSON.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        let nodes = SharedNodes {
            plain: self.plain.node.clone(),
            managed: self.managed.node.clone(),
            management: self.management.clone(),
        };
        (SHARED, serde_json::to_string(&nodes).expect("the description of a node is JSON"))
    }
}

static OF_RUN: LazyLock<Option<SharedNodes>> = LazyLock::new(|| {
    let text = env::var(SHARED).ok()?;
    Some(serde_json::from_str(&text).expect("with_brokers describes its nodes"))
});

/// The URL of the broker that the tests share: the one that `JOBQ_TEST_AMQP_URL` names, else a
/// private node.
pub async fn shared() -> String {
    match given_url() {
        Some(url) => url,
        None => shared_node().await.url(),
    }
}

/// The private node that the tests share, for a test that asks `rabbitmqctl`; `None`, said
/// aloud, where the tests run on another broker.
pub async fn shared_with_ctl(test: &str) -> Option<&'static Node> {
    if given_url().is_none() {
        return Some(shared_node().await);
    }
    skipped(test);
    None
}

/// The private node with the management API that the tests share, and its URL; `None`, said
/// aloud, where the tests run on another broker.
pub async fn shared_with_management(test: &str) -> Option<(&'static Node, &'static str)> {
    static OF_PROCESS: OnceCell<(Broker, String)> = OnceCell::const_new();
    if given_url().is_some() {
        skipped(test);
        return None;
    }
    if let Some(nodes) = &*OF_RUN {
        return Some((&nodes.managed, &nodes.management));
    }
    let start = || blocking(|| Broker::start_with_management(None));
    let (broker, management) = OF_PROCESS.get_or_init(start).await;
    Some((broker.node(), management))
}

async fn shared_node() -> &'static Node {
    static OF_PROCESS: OnceCell<Broker> = OnceCell::const_new();
    match &*OF_RUN {
        Some(nodes) => &nodes.plain,
        None => OF_PROCESS.get_or_init(Broker::start).await.node(),
    }
}

fn skipped(test: &str) {
    skipped_for(test, "a private broker");
}

/// Whether the tests run on this version of RabbitMQ or a later one; where not, that is said aloud.
#[must_use]
pub fn is_at_least(first: (u32, u32), test: &str) -> bool {
    let version = env::var("JOBQ_TEST_BROKER_VERSION").unwrap_or_default();
    let number = |text: &str| text.parse::<u32>().ok();
    let parts = version.split_once('.').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    let is_so = parts.is_some_and(|parts| parts >= first);
    if !is_so {
        skipped_for(test, &format!("RabbitMQ {}.{} or later", first.0, first.1));
    }
    is_so
}

/// Says aloud that a test did not run, and what it needs. `tests/run` collects these lines.
pub(crate) fn skipped_for(test: &str, need: &str) {
    eprintln!("SKIPPED: {test} needs {need}");
}

/// A namespace that no other test uses.
#[must_use]
pub fn namespace() -> String {
    format!("t{}", unique())
}

pub(crate) fn given_url() -> Option<String> {
    env::var("JOBQ_TEST_AMQP_URL").ok().filter(|url| !url.is_empty())
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// `[a-f0-9-]{1,28}`, never twice.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{count:x}", since.as_millis(), process::id())
}

#[cfg(test)]
#[path = "broker_tests.rs"]
mod tests;
