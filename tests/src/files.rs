//! Fresh directories for files of jobs.

use std::path::{Path, PathBuf};

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
