//! A private MariaDB server, which ends with the test.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{is_root, log};

/// How long it may take to start, also after a crash.
const START_LIMIT: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_millis(20);
const MISSING: &str =
    "MariaDB is not installed: run `./tests/run --all`, which installs what the tests need";

/// A private server, without a port: clients connect to a socket in its folder.
#[derive(Debug)]
pub struct MariaDb {
    folder: TempDir,
    server: Child,
}

impl MariaDb {
    /// Starts a server with an empty database `shop`, and the tables of jobq in it.
    #[must_use]
    pub fn start() -> Self {
        let server = Self::empty();
        server.sql(jobq::outbox::mysql::MIGRATION);
        server
    }

    /// Starts a server with an empty database `shop`.
    #[must_use]
    pub fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("jobq-my-").tempdir_in("/tmp");
        let folder = folder.expect("a folder can be made");
        let mut install = Command::new("/usr/bin/mariadb-install-db");
        install.env("TMPDIR", folder.path());
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M"]);
        install.args(user()).arg(argument("datadir", &folder.path().join("data")));
        let (out, errors) = (log(folder.path()), log(folder.path()));
        let made = install.stdout(out).stderr(errors).status().expect(MISSING);
        assert!(made.success(), "mariadb-install-db failed: {made}: {}", logged(folder.path()));
        let server = Self { server: spawn(folder.path()), folder };
        server.wait();
        server.client("mysql", "CREATE DATABASE shop CHARACTER SET utf8mb4");
        server
    }

    /// The URL for a user, who needs no password.
    #[must_use]
    pub fn url(&self, user: &str) -> String {
        format!("mysql://{user}@localhost/shop?socket={}", self.socket().display())
    }

    /// Runs statements as the owner of the database, and gives what they printed: the columns of a row
    /// have `|` between them.
    pub fn sql(&self, statements: &str) -> String {
        self.client("shop", statements).replace('\t', "|")
    }

    fn client(&self, database: &str, statements: &str) -> String {
        let mut client = self.command("mariadb");
        client.args(["--batch", "--skip-column-names", "--raw", database]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn().expect(MISSING);
        let mut input = client.stdin.take().expect("it has an input");
        input.write_all(statements.as_bytes()).expect("the client reads statements");
        drop(input);
        let output = client.wait_with_output().expect("the client ends");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statements}: {complaint}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.server.kill().expect("it runs");
        self.server.wait().expect("it ends");
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.server = spawn(self.folder.path());
        self.wait();
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A client program with its first arguments.
    fn command(&self, name: &str) -> Command {
        let mut client = Command::new(name);
        client.args(["--no-defaults", "--user=root", "--default-character-set=utf8mb4"]);
        client.arg(argument("socket", &self.socket()));
        client
    }

    fn wait(&self) {
        let begin = Instant::now();
        loop {
            let mut asking = self.command("mariadb");
            asking.args(["mysql", "-e", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
            if asking.status().expect(MISSING).success() {
                return;
            }
            let log = || logged(self.folder.path());
            assert!(begin.elapsed() < START_LIMIT, "MariaDB does not start: {}", log());
            sleep(AGAIN);
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn spawn(folder: &Path) -> Child {
    // It ends with the thread that starts it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "/usr/sbin/mariadbd", "--no-defaults"]);
    // A server that starts deletes the temporary tables of all others in its folder.
    command.env("TMPDIR", folder);
    command.args(["--skip-networking", "--skip-name-resolve", "--skip-log-bin"]);
    // The machine does not fail in tests, only processes do.
    command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=16M"]);
    command.args(["--innodb-buffer-pool-size=64M", "--max-connections=200"]);
    command.args(["--max-allowed-packet=64M", "--performance-schema=OFF"]);
    command.args(user()).arg(argument("datadir", &folder.join("data")));
    command.arg(argument("socket", &folder.join("socket")));
    command.arg(argument("pid-file", &folder.join("pid")));
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stdout(log(folder)).stderr(log(folder)).stdin(Stdio::null());
    command.spawn().expect("MariaDB can be started")
}

/// The log of the server.
fn logged(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn argument(name: &str, value: &Path) -> String {
    format!("--{name}={}", value.display())
}

/// A server of root's says so.
fn user() -> Option<&'static str> {
    is_root().then_some("--user=root")
}
