//! `PgBouncer` in transaction mode, before a private server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Postgres;
use crate::postgres::as_database_user;

const START_LIMIT: Duration = Duration::from_secs(60);
/// The name of its socket, of which nobody listens on the port.
const PORT: u16 = 6432;

/// A private `PgBouncer` with three connections to the server, which its clients share by
/// transactions.
#[derive(Debug)]
pub struct PgBouncer {
    folder: TempDir,
    process: Child,
}

impl PgBouncer {
    /// Starts it before this server.
    #[must_use]
    pub fn start(server: &Postgres) -> Self {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::Builder::new().prefix("jobq-pb-").tempdir_in("/tmp");
        let folder = folder.expect("a folder can be made");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open).expect("its permissions can be set");
        let settings = format!(
            "[databases]\nshop = host={} user=postgres\n[pgbouncer]\nlisten_addr =\n\
             listen_port = {PORT}\nunix_socket_dir = {}\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 3\n",
            server.folder().display(),
            folder.path().display()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("its settings can be written");
        let mut command = as_database_user(Path::new("/usr/sbin/pgbouncer"));
        command
            .arg("-q")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().expect("PgBouncer is installed: run `./tests/run`");
        let bouncer = Self { folder, process };
        let (begin, socket) =
            (Instant::now(), bouncer.folder.path().join(format!(".s.PGSQL.{PORT}")));
        while !socket.exists() {
            assert!(begin.elapsed() < START_LIMIT, "PgBouncer does not start");
            sleep(Duration::from_millis(10));
        }
        bouncer
    }

    /// The URL for a user, who needs no password.
    #[must_use]
    pub fn url(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{PORT}/shop")
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let mut kill = Command::new("kill");
        let _ = kill.arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}
