//! Networks of their own for the nodes of a cluster, with links that can be cut: each node
//! runs in a network namespace, with one link to its clients and one to the other nodes.
//!
//! What is made here goes when the processes that hold the namespaces do, and they end with
//! the test process, however that ends. It takes root, and Linux.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::place::Place;
use crate::port::free_port;

/// The most nodes that it has room for.
const ROOM: usize = 60;

/// A network between some nodes, and a link from each of them to this process.
#[derive(Debug)]
pub struct Network {
    /// What joins the links between the nodes.
    bridge: Namespace,
    nodes: Vec<Namespace>,
    /// Each node asks for the others where it has its own.
    epmd_port: u16,
    /// Tells its links and addresses from those of other tests.
    number: u8,
}

/// A network namespace, for as long as this lives.
#[derive(Debug)]
struct Namespace {
    holder: Child,
}

impl Network {
    /// A network for so many nodes; an error says what this machine does not allow.
    pub(crate) fn new(count: usize) -> Result<Self, String> {
        assert!(count <= ROOM, "there is room for {ROOM} nodes");
        let nodes = (0..count).map(|_| Namespace::new()).collect::<Result<Vec<_>, _>>()?;
        let number = free_number()?;
        let (bridge, epmd_port) = (Namespace::new()?, free_port());
        let network = Self { bridge, nodes, epmd_port, number };
        let bridge = &network.bridge;
        bridge.ip("link add name bridge0 type bridge")?;
        bridge.ip("link set bridge0 up")?;
        for (index, node) in network.nodes.iter().enumerate() {
            let (inside, outside) = network.client_addresses(index);
            let (link, pid) = (network.client_link(index), node.pid());
            ip(&format!("link add name {link} type veth peer name clients netns {pid}"))?;
            ip(&format!("addr add {outside}/30 dev {link}"))?;
            ip(&format!("link set {link} up"))?;
            let (port, address) = (port_of(index), network.node_address(index));
            bridge.ip(&format!("link add name {port} type veth peer name nodes netns {pid}"))?;
            bridge.ip(&format!("link set {port} master bridge0"))?;
            bridge.ip(&format!("link set {port} up"))?;
            node.ip("link set lo up")?;
            node.ip(&format!("addr add {inside}/30 dev clients"))?;
            node.ip("link set clients up")?;
            node.ip(&format!("addr add {address}/24 dev nodes"))?;
            node.ip("link set nodes up")?;
        }
        Ok(network)
    }

    /// The place of one node.
    pub(crate) fn place(&self, index: usize) -> Place {
        let nodes = self.node_address(index);
        Place {
            host: nodes.to_string(),
            clients: self.client_addresses(index).0,
            nodes,
            epmd_port: self.epmd_port,
            has_epmd: true,
            inside: Some(self.nodes[index].pid()),
        }
    }

    /// Cuts a node off from the others, as a pulled cable would. Clients still reach it.
    pub fn cut(&self, index: usize) {
        self.bridge.ip(&format!("link set {} down", port_of(index))).expect("a link can be cut");
    }

    /// Ends a [`cut`](Self::cut).
    pub fn join(&self, index: usize) {
        self.bridge.ip(&format!("link set {} up", port_of(index))).expect("a link can be joined");
    }

    /// Cuts a node off from its clients. The other nodes still reach it.
    pub fn cut_clients(&self, index: usize) {
        self.nodes[index].ip("link set clients down").expect("a link can be cut");
    }

    /// Ends a [`cut_clients`](Self::cut_clients).
    pub fn join_clients(&self, index: usize) {
        self.nodes[index].ip("link set clients up").expect("a link can be joined");
    }

    fn client_link(&self, index: usize) -> String {
        client_link(self.number, index)
    }

    /// The node's end of the link to its clients, and theirs. Both networks are of those that
    /// are kept for tests (198.18.0.0/15).
    fn client_addresses(&self, index: usize) -> (Ipv4Addr, Ipv4Addr) {
        let start = byte(index) * 4;
        let address = |last| Ipv4Addr::new(198, 18, self.number, start + last);
        (address(2), address(1))
    }

    fn node_address(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.number, byte(index) + 1)
    }
}

impl Namespace {
    fn new() -> Result<Self, String> {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo made; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let output = holder.stdout.take().expect("its output is a pipe");
        let namespace = Self { holder };
        BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        if line == "made\n" {
            Ok(namespace)
        } else {
            Err("no network namespace can be made here".to_owned())
        }
    }

    fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn ip(&self, words: &str) -> Result<(), String> {
        let place = Place { inside: Some(self.pid()), ..Place::default() };
        run(place.command("ip"), words)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn ip(words: &str) -> Result<(), String> {
    run(Command::new("ip"), words)
}

fn run(mut command: Command, words: &str) -> Result<(), String> {
    let output = command.args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {words}: {}", complaint.trim()))
}

/// A number that no other test has.
fn free_number() -> Result<u8, String> {
    let first = fastrand::u8(..);
    let mut numbers = (0..=u8::MAX).map(|number| number.wrapping_add(first));
    let is_free = |number: &u8| !Path::new("/sys/class/net").join(client_link(*number, 0)).exists();
    numbers.find(is_free).ok_or_else(|| "other tests have all networks".to_owned())
}

fn client_link(number: u8, index: usize) -> String {
    format!("jobq{number}c{index}")
}

/// The end, at the bridge, of a node's link to the others.
fn port_of(index: usize) -> String {
    format!("node{index}")
}

fn byte(index: usize) -> u8 {
    u8::try_from(index).expect("there is room for it")
}
