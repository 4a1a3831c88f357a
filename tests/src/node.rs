//! A node as the operating system sees it: its files, its environment and the process that
//! keeps it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde::{Deserialize, Serialize};

use crate::broker::blocking;
use crate::greeting::{greeting, version};
use crate::place::Place;
use crate::port::free_port;

/// How long a broker may take to answer; it takes 2 to 7 seconds on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(120);
const KEEPER: &str = include_str!("keeper.sh");
pub(crate) const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
pub(crate) const ADVANCED: &str = "advanced.config";
/// 3.10 sets three files aside for each quorum queue, whether or not it opens them, and takes no
/// connection any more when they are more than the process may open: some 6,600 queues here, and
/// the tests that share a node have more. It opens some dozens.
const MANY_QUEUES: &str = "[{rabbit, [{file_handles_high_watermark, 1000000}]}].";

/// A private node: what it keeps over its restarts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// Another system in which the broker runs; the empty path for this one.
    root: PathBuf,
    /// The folder with the node's data, as the broker sees it.
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) port: u16,
    dist_port: u16,
    /// Whether that port speaks TLS.
    pub(crate) is_encrypted: bool,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    pub(crate) fn tell(&mut self, command: &str) -> String {
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

/// The root with the RabbitMQ of the tests; without one, it is this machine's own.
fn of_tests() -> Option<PathBuf> {
    env::var_os("JOBQ_TEST_BROKER_ROOT").map(PathBuf::from)
}

impl Node {
    /// A node of this name, which no other has, at this place, of the RabbitMQ that is installed
    /// under this root; without one, that of the tests.
    pub(crate) fn new(tag: &str, place: Place, root: Option<PathBuf>) -> Self {
        let root = root.or_else(of_tests).unwrap_or_default();
        let node = Self {
            root,
            dir: Path::new("/tmp").join(format!("jobq-broker-{tag}")),
            name: format!("jobq-{tag}@{}", place.host),
            place,
            port: free_port(),
            dist_port: free_port(),
            is_encrypted: false,
        };
        assert!(
            node.outside(Path::new(SCRIPTS)).join("rabbitmq-server").exists(),
            "RabbitMQ is not installed ({SCRIPTS}): run `./tests/run`, which installs what the \
             tests need, or set JOBQ_TEST_AMQP_URL to the URL of a broker for tests"
        );
        node
    }

    /// Another one, without data, where clients find this one.
    pub(crate) fn successor(&self, tag: &str) -> Self {
        Self { port: self.port, ..Self::new(tag, self.place.clone(), None) }
    }

    /// Where clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_encrypted { "amqps" } else { "amqp" }, self.host())
    }

    /// The host and the port that clients connect to.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}:{}", self.place.clients, self.port)
    }

    /// Runs `rabbitmqctl` on this node and gives what it printed.
    ///
    /// # Panics
    ///
    /// If the command fails.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        self.run("rabbitmqctl", arguments).await
    }

    /// Runs one of the broker's commands on this node and gives what it printed.
    ///
    /// # Panics
    ///
    /// If the command fails.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = self.command(&format!("{SCRIPTS}/{program}"));
        command.args(["-q", "-n", &self.name]).args(arguments);
        let output = blocking(move || command.output()).await.expect("the command can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?} failed: {text}{complaint}");
        text
    }

    /// A path of the broker as this process sees it.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            path.to_owned()
        } else {
            self.root.join(path.strip_prefix("/").unwrap_or(path))
        }
    }

    pub(crate) fn spawn_keeper(&self, extra: Vec<(&'static str, String)>) -> Keeper {
        let dir = self.outside(&self.dir);
        fs::create_dir_all(&dir).expect("a folder for the broker can be made");
        let cookie = dir.join(".erlang.cookie");
        let advanced = extra.iter().any(|(name, _)| *name == ADVANCED);
        let advanced = if advanced { "" } else { MANY_QUEUES };
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
    pub(crate) fn command(&self, program: &str) -> Command {
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
            .env("ERL_CRASH_DUMP", file("crash.dump"))
            .env("RABBITMQ_USE_LONGNAME", self.place.has_long_name().to_string())
            .env("ERL_EPMD_PORT", epmd_port.to_string())
            .env("ERL_EPMD_ADDRESS", nodes.to_string())
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!("-kernel inet_dist_use_interface {}", self.place.interface()),
            );
        command
    }

    /// Waits until the node greets a client, and checks its version. Of one that speaks TLS alone,
    /// it waits for the port, and checks nothing.
    pub(crate) fn await_ready(&self, pid: &str) {
        let (deadline, address) = (Instant::now() + START_LIMIT, (self.place.clients, self.port));
        loop {
            if self.is_encrypted && TcpStream::connect(address).is_ok() {
                return;
            }
            if !self.is_encrypted
                && let Some(greeting) = greeting(address)
            {
                return self.check_version(&greeting);
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

    /// The tests of a version pass on that version, not on one that was started by mistake. A node of
    /// another root is of another version on purpose.
    fn check_version(&self, greeting: &[u8]) {
        if self.root != of_tests().unwrap_or_default() {
            return;
        }
        let stated = env::var("JOBQ_TEST_BROKER_VERSION").unwrap_or_default();
        let found = version(greeting).unwrap_or("unknown");
        assert!(
            stated.is_empty() || format!("{found}.").starts_with(&format!("{stated}.")),
            "JOBQ_TEST_BROKER_VERSION says RabbitMQ {stated}, but the broker that started is \
             {found} (JOBQ_TEST_BROKER_ROOT={})",
            self.root.display()
        );
    }

    /// The logs of the node.
    #[must_use]
    pub fn log(&self) -> String {
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
