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

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}
