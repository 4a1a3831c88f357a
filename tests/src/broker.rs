//! Private RabbitMQ nodes: own name, ports, data and epmd, gone with the test process.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, process, thread};

use tokio::sync::OnceCell;

use crate::greeting::{greeting, version};
use crate::place::Place;
use crate::port::free_port;

/// How long a broker may take to answer; it takes 2 to 7 seconds on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(120);
const KEEPER: &str = include_str!("keeper.sh");
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
const ADVANCED: &str = "advanced.config";

/// A private RabbitMQ node. Dropping it ends the node and removes its data.
#[derive(Debug)]
pub struct Broker {
    node: Node,
    keeper: Mutex<Keeper>,
}

/// What a node keeps over its restarts.
#[derive(Debug, Clone)]
struct Node {
    /// Another system in which the broker runs; the empty path for this one.
    root: PathBuf,
    /// The folder with the node's data, as the broker sees it.
    dir: PathBuf,
    name: String,
    place: Place,
    port: u16,
    dist_port: u16,
}

#[derive(Debug)]
struct Keeper {
    process: Child,
    answers: BufReader<ChildStdout>,
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
        let port = free_port();
        let plugins = ("plugins", "[rabbitmq_management].".to_owned());
        let listens = format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n");
        let files = move |_: &Path| vec![plugins, ("rabbitmq.conf", listens)];
        let node = Self::with_files(test, files).await?;
        Some((node, format!("http://127.0.0.1:{port}")))
    }

    fn start_now(files: impl FnOnce(&Path) -> Vec<(&'static str, String)>) -> Self {
        Self::start_at(Place::default(), files)
    }

    /// A node at this place. It is not a test's own: see [`to_kill`](Self::to_kill).
    pub(crate) fn start_at(
        place: Place,
        files: impl FnOnce(&Path) -> Vec<(&'static str, String)>,
    ) -> Self {
        let node = Node::new(place);
        let keeper = node.spawn_keeper(files(&node.dir));
        let broker = Self { node, keeper: Mutex::new(keeper) };
        let pid = broker.tell("start");
        broker.node.check_version(&broker.node.await_ready(&pid));
        broker
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        format!("amqp://{}", self.host())
    }

    /// The host and the port that clients connect to.
    pub fn host(&self) -> String {
        format!("{}:{}", self.node.place.clients, self.node.port)
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

    /// What the broker wrote to its log and its output.
    pub fn log(&self) -> String {
        self.node.log()
    }

    /// Runs `rabbitmqctl` on this broker and gives what it printed.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        let mut command = self.node.command(&format!("{SCRIPTS}/rabbitmqctl"));
        command.args(["-q", "-n", &self.node.name]).args(arguments);
        let output = blocking(move || command.output()).await.expect("rabbitmqctl can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rabbitmqctl {arguments:?} failed: {text}{complaint}");
        text
    }

    fn tell(&self, command: &str) -> String {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        keeper.tell(command)
    }
}

impl Keeper {
    fn tell(&mut self, command: &str) -> String {
        let commands = self.process.stdin.as_mut().expect("the keeper's input is a pipe");
        writeln!(commands, "{command}").expect("the keeper runs");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the keeper answers");
        answer.trim().to_owned()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

impl Node {
    fn new(place: Place) -> Self {
        let root = env::var_os("JOBQ_TEST_BROKER_ROOT").map(PathBuf::from).unwrap_or_default();
        let tag = unique();
        let node = Self {
            root,
            dir: Path::new("/tmp").join(format!("jobq-broker-{tag}")),
            name: format!("jobq-{tag}@{}", place.host),
            place,
            port: free_port(),
            dist_port: free_port(),
        };
        assert!(
            node.outside(Path::new(SCRIPTS)).join("rabbitmq-server").exists(),
            "RabbitMQ is not installed ({SCRIPTS}): run `./tests/run`, which installs what the \
             tests need, or set JOBQ_TEST_AMQP_URL to the URL of a broker for tests"
        );
        node
    }

    /// A path of the broker as this process sees it.
    fn outside(&self, path: &Path) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            path.to_owned()
        } else {
            self.root.join(path.strip_prefix("/").unwrap_or(path))
        }
    }

    fn spawn_keeper(&self, extra: Vec<(&'static str, String)>) -> Keeper {
        let dir = self.outside(&self.dir);
        fs::create_dir_all(&dir).expect("a folder for the broker can be made");
        let cookie = dir.join(".erlang.cookie");
        let advanced = if extra.iter().any(|(name, _)| *name == ADVANCED) { "" } else { "[]." };
        let files = [
            (cookie.clone(), "JOBQTESTS"),
            (dir.join("plugins"), "[]."),
            (dir.join(ADVANCED), advanced),
            // A test needs little, and the machine may have little to spare.
            (dir.join("rabbitmq.conf"), "disk_free_limit.absolute = 50MB\n"),
        ];
        let files = files.map(|(path, text)| (path, text.to_owned())).into_iter();
        // Of these there can be but one.
        let replaced = extra.iter().any(|(name, _)| *name == "plugins");
        let files = files.filter(|(path, _)| !(replaced && path.ends_with("plugins")));
        let extra = extra.into_iter().map(|(name, text)| (dir.join(name), text));
        for (path, text) in files.chain(extra) {
            let file = fs::File::options().create(true).append(true).open(path);
            let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
            written.expect("the broker's files can be written");
        }
        fs::set_permissions(cookie, fs::Permissions::from_mode(0o400))
            .expect("the cookie can be made private");
        // Not in the group of the test, so that Ctrl-C leaves the keeper time to tidy up.
        let mut process = self
            .plain_command("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&dir)
            .env("JOBQ_TEST_BROKER_ROOT", &self.root)
            .env("JOBQ_TEST_EPMD", if self.place.has_epmd { "own" } else { "another's" })
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let answers = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        Keeper { process, answers }
    }

    /// A command that runs where the broker runs.
    fn command(&self, program: &str) -> Command {
        if self.root.as_os_str().is_empty() {
            return self.plain_command(program);
        }
        let mut command = self.plain_command("chroot");
        command.arg(&self.root).arg(program);
        command
    }

    fn plain_command(&self, program: &str) -> Command {
        let Place { clients, nodes, epmd_port, .. } = &self.place;
        let mut command = self.place.command(program);
        let file = |name: &str| self.dir.join(name);
        command
            .env("HOME", &self.dir)
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .env("RABBITMQ_NODENAME", &self.name)
            .env("RABBITMQ_NODE_IP_ADDRESS", clients.to_string())
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.dist_port.to_string())
            .env("RABBITMQ_MNESIA_BASE", file("data"))
            .env("RABBITMQ_LOG_BASE", file("log"))
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", file(ADVANCED))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", file("plugins"))
            .env("RABBITMQ_PID_FILE", file("pid"))
            .env("RABBITMQ_USE_LONGNAME", self.place.has_long_name().to_string())
            .env("ERL_EPMD_PORT", epmd_port.to_string())
            .env("ERL_EPMD_ADDRESS", nodes.to_string())
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!("-kernel inet_dist_use_interface {}", self.place.interface()),
            );
        command
    }

    /// Waits until the node greets a client, and gives that greeting.
    fn await_ready(&self, pid: &str) -> Vec<u8> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(greeting) = greeting((self.place.clients, self.port)) {
                return greeting;
            }
            let ended = fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.contains(") Z "));
            if ended || Instant::now() > deadline {
                let what = if ended { "ended at once" } else { "did not start in time" };
                let log = self.log();
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(60)..].join("\n");
                panic!("the broker {} {what}; the tail of its log:\n{tail}", self.name);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The tests of a version pass on that version, not on one that was started by mistake.
    fn check_version(&self, greeting: &[u8]) {
        let stated = env::var("JOBQ_TEST_BROKER_VERSION").unwrap_or_default();
        let found = version(greeting).unwrap_or("unknown");
        assert!(
            stated.is_empty() || format!("{found}.").starts_with(&format!("{stated}.")),
            "JOBQ_TEST_BROKER_VERSION says RabbitMQ {stated}, but the broker that started is \
             {found} (JOBQ_TEST_BROKER_ROOT={})",
            self.root.display()
        );
    }

    fn log(&self) -> String {
        let mut text = String::new();
        let mut paths = vec![self.dir.join("broker.log"), self.dir.join("epmd.log")];
        let logs = fs::read_dir(self.outside(&self.dir.join("log"))).into_iter().flatten();
        paths.extend(logs.flatten().map(|entry| self.dir.join("log").join(entry.file_name())));
        for path in paths {
            if let Ok(content) = fs::read(self.outside(&path)) {
                let _ = writeln!(text, "{}:", path.display());
                text.push_str(&String::from_utf8_lossy(&content));
            }
        }
        text
    }
}

/// The content of an `advanced.config` that sets a number of the application `rabbit`.
pub(crate) fn setting(key: &str, number: u32) -> String {
    format!("[{{rabbit, [{{{key}, {number}}}]}}].")
}

/// The URL of the broker that all tests of this process share: the one that
/// `JOBQ_TEST_AMQP_URL` names, else a private node.
pub async fn shared() -> String {
    match given_url() {
        Some(url) => url,
        None => shared_node().await.url(),
    }
}

/// The private node that all tests of this process share, for a test that asks
/// `rabbitmqctl`; `None`, said aloud, where the tests run on another broker.
pub async fn shared_with_ctl(test: &str) -> Option<&'static Broker> {
    if given_url().is_none() {
        return Some(shared_node().await);
    }
    skipped(test);
    None
}

async fn shared_node() -> &'static Broker {
    static SHARED: OnceCell<Broker> = OnceCell::const_new();
    SHARED.get_or_init(Broker::start).await
}

fn skipped(test: &str) {
    skipped_for(test, "a private broker");
}

/// Says aloud that a test did not run, and what it needs.
pub(crate) fn skipped_for(test: &str, need: &str) {
    static SKIPPED: AtomicU32 = AtomicU32::new(0);
    let skipped = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    eprintln!("SKIPPED ({skipped} in this run): {test} needs {need}");
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
