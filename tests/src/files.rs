//! Fresh directories for files of jobs, and small disks.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A new empty directory, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Directory(TempDir);

impl Directory {
    /// Makes it among the temporary files.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The URL of a file of jobs in it.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("sqlite://{}", self.file(name).display())
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

/// A small disk of its own, in memory, that can be full or not be written to. Dropping it
/// removes it.
#[derive(Debug)]
pub struct SmallDisk(Directory);

impl SmallDisk {
    /// Mounts one with so many bytes; `None`, said aloud, where this user may not.
    #[must_use]
    pub fn mount(test: &str, bytes: u32) -> Option<Self> {
        let directory = Directory::new();
        let options = format!("size={bytes}");
        let arguments = ["-t", "tmpfs", "-o", &options, "jobq-tests"];
        if run("mount", &arguments, directory.path()) {
            return Some(Self(directory));
        }
        eprintln!("SKIPPED: {test} needs root and the right to mount a file system");
        None
    }

    /// What is on it.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.0
    }

    /// Takes up all space that is left, with a file.
    ///
    /// # Panics
    ///
    /// If it cannot be written to for another reason.
    pub fn fill(&self, name: &str) {
        let mut file = File::create(self.0.file(name)).expect("a file on the disk");
        let error = loop {
            if let Err(error) = file.write_all(&[0; 512]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    /// Makes it read-only. Nothing on it may be open for writing.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn make_read_only(&self) {
        assert!(run("mount", &["-o", "remount,ro"], self.0.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], self.0.path());
    }
}

/// The migrations of job files, the first one first.
const MIGRATIONS: [&str; 11] = [
    include_str!("../../jobq/src/sqlite/migrations/1.sql"),
    include_str!("../../jobq/src/sqlite/migrations/2.sql"),
    include_str!("../../jobq/src/sqlite/migrations/3.sql"),
    include_str!("../../jobq/src/sqlite/migrations/4.sql"),
    include_str!("../../jobq/src/sqlite/migrations/5.sql"),
    include_str!("../../jobq/src/sqlite/migrations/6.sql"),
    include_str!("../../jobq/src/sqlite/migrations/7.sql"),
    include_str!("../../jobq/src/sqlite/migrations/8.sql"),
    include_str!("../../jobq/src/sqlite/migrations/9.sql"),
    include_str!("../../jobq/src/sqlite/migrations/10.sql"),
    include_str!("../../jobq/src/sqlite/migrations/11.sql"),
];

/// The version of the newest schema of job files.
pub const NEWEST_SCHEMA: usize = MIGRATIONS.len();

/// Makes a file of jobs as an earlier version of jobq did, with the queue `mail`: a job that is
/// ready, one that waits, one that failed and, from schema 2 on, one of an event that is due.
///
/// # Panics
///
/// If it cannot be written.
pub fn make_job_file(path: &Path, schema: usize) {
    let file = rusqlite::Connection::open(path).expect("a new file");
    let mode = file.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()));
    mode.expect("a log");
    for step in &MIGRATIONS[..schema] {
        file.execute_batch(step).expect("a migration");
    }
    file.pragma_update(None, "application_id", 0x6a6f_6271).expect("an id");
    file.pragma_update(None, "user_version", i64::try_from(schema).expect("small"))
        .expect("a version");
    let jobs = "INSERT INTO queues (namespace, name) VALUES ('jobq', 'mail');
        INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, name, payload)
        VALUES (1, 0, 0, randomblob(16), 0, 'mail', '{}'),
            (1, 9000000000000000, 0, randomblob(16), 0, 'mail', '{}');
        INSERT INTO failed (queue, failed_at, attempts, reason, error, job_id, enqueued_at, payload)
        VALUES (1, 0, 1, 'aborted', 'no', randomblob(16), 0, '{}');";
    file.execute_batch(&jobs.replace("'{}'", "CAST('{}' AS BLOB)")).expect("jobs");
    if schema >= 2 {
        let event = "INSERT INTO subscriptions VALUES (1, 'user.*');
            INSERT INTO events (namespace, due, job_id, published_at, topic, payload)
            VALUES ('jobq', 0, randomblob(16), 0, 'user.created', CAST('{}' AS BLOB))";
        file.execute_batch(event).expect("an event");
    }
}

/// The version of the schema of a job file.
///
/// # Panics
///
/// If it cannot be read.
#[must_use]
pub fn schema_of(path: &Path) -> usize {
    let file = rusqlite::Connection::open(path).expect("a file");
    let version = file.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    usize::try_from(version.expect("a version")).expect("small")
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}
