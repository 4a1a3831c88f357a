//! A private PostgreSQL server, which ends with the test.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jobq_tokio_postgres::PgOutbox;
use tempfile::TempDir;

use crate::process::{is_root, log, signal};
use crate::{Database, Users};

/// How long it may take to start, also after a crash.
const START_LIMIT: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_millis(20);

/// A private server, without a port: clients connect to a socket in its folder.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    server: Child,
}

impl Postgres {
    /// Starts a server with an empty database `shop`, and the tables of jobq in it.
    #[must_use]
    pub fn start() -> Self {
        let server = Self::empty();
        server.sql(jobq::outbox::postgres::MIGRATION);
        server
    }

    /// As [`start`](Self::start), with a commit that is on the disk when it returns: for benchmarks.
    #[must_use]
    pub fn durable() -> Self {
        let server = Self::start();
        server.sql("ALTER SYSTEM SET fsync = on");
        server.sql("SELECT pg_reload_conf()");
        server
    }

    /// Starts a server with an empty database `shop`.
    #[must_use]
    pub fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("jobq-pg-").tempdir_in("/tmp");
        let folder = folder.expect("a folder can be made");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open).expect("its permissions can be set");
        let data = folder.path().join("data");
        let mut initdb = as_user("initdb");
        initdb.args([
            "--no-sync",
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "-D",
        ]);
        let made = initdb.arg(&data).stdout(Stdio::null()).status().expect("initdb can be run");
        assert!(made.success(), "initdb failed: {made}");
        // The machine does not fail in tests, only processes do. It is no option of the command, which
        // nothing could change later.
        let settings = fs::File::options().append(true).open(data.join("postgresql.auto.conf"));
        let written = settings.and_then(|mut file| writeln!(file, "fsync = off"));
        written.expect("the settings can be written");
        let server = Self { server: spawn(folder.path()), folder };
        server.wait();
        server.psql("postgres", "CREATE DATABASE shop");
        server
    }

    /// The URL for a user, who needs no password.
    #[must_use]
    pub fn url(&self, user: &str) -> String {
        format!(
            "postgres://{user}@{}/shop",
            self.folder().display().to_string().replace('/', "%2F")
        )
    }

    /// The folder of its socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs statements as the owner of the database, and gives what they printed.
    pub fn sql(&self, statements: &str) -> String {
        self.psql("shop", statements)
    }

    fn psql(&self, database: &str, statements: &str) -> String {
        let mut psql = Command::new(program("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        psql.arg(self.folder()).args([database, "-c", statements]);
        let output = psql.output().expect("psql can be run");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statements}: {complaint}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Kills the server and all of its processes.
    pub fn kill(&mut self) {
        signal(&self.server, "QUIT");
        self.server.wait().expect("it ends");
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.server = spawn(self.folder());
        self.wait();
    }

    fn wait(&self) {
        let begin = Instant::now();
        loop {
            let mut asking = Command::new(program("pg_isready"));
            asking.args(["-q", "-U", "postgres", "-h"]).arg(self.folder());
            if asking.status().expect("pg_isready can be run").success() {
                return;
            }
            assert!(begin.elapsed() < START_LIMIT, "PostgreSQL does not start; see its log");
            sleep(AGAIN);
        }
    }
}

impl Database for Postgres {
    type Outbox = PgOutbox;

    fn start() -> Self {
        Self::start()
    }

    fn url(&self) -> String {
        self.url("postgres")
    }

    async fn outbox(&self) -> PgOutbox {
        PgOutbox::connect(self.url("postgres")).await.expect("the tables are there")
    }

    fn sql(&self, statements: &str) -> String {
        self.sql(statements)
    }
}

impl Users for Postgres {
    fn add_clerk(&self) -> String {
        self.sql("CREATE ROLE clerk LOGIN");
        self.url("clerk")
    }

    fn let_clerk_enqueue(&self) {
        self.sql("GRANT INSERT ON jobq_outbox TO clerk");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut kill = Command::new("kill");
        let _ = kill.arg("-QUIT").arg(self.server.id().to_string()).status();
        let _ = self.server.wait();
    }
}

fn spawn(folder: &Path) -> Child {
    let mut command = as_user("postgres");
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    for setting in ["listen_addresses=", "max_connections=200", "shared_buffers=64MB"] {
        command.args(["-c", setting]);
    }
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stdout(log(folder)).stderr(log(folder)).stdin(Stdio::null());
    command.spawn().expect("PostgreSQL can be started")
}

fn as_user(name: &str) -> Command {
    as_database_user(&program(name))
}

/// A program that does not run as root, and ends with the thread that starts it.
pub(crate) fn as_database_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

/// The newest that is installed.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin").join(name));
    let newest = programs.filter(|program| program.exists()).max();
    newest.expect(
        "PostgreSQL is not installed: run `./tests/run`, which installs what the tests need",
    )
}
