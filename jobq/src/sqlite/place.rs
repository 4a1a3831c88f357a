use std::fmt;
use std::path::{Path, PathBuf};

use jobq_names::setting::stray;

use crate::error::{Error, Result};

/// The storage of the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In the memory of this process, until the engine is closed.
    Memory,
    /// In this file; the path is absolute.
    File(PathBuf),
}

impl Place {
    /// Reads `sqlite://relative/or.db`, `sqlite:///absolute.db` or `sqlite::memory:`.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let wrong = |problem: &str| {
            Err(Error::invalid(format!(
                "`{url}` is not the URL of a job file: {problem}; use a URL such as \
                 sqlite://jobs.db, sqlite:///var/lib/app/jobs.db or sqlite::memory:"
            )))
        };
        if url == "sqlite::memory:" {
            return Ok(Self::Memory);
        }
        let Some(path) = url.strip_prefix("sqlite://") else {
            return wrong("`sqlite:` is not followed by `//`");
        };
        if path.is_empty() {
            return wrong("it does not name a file");
        }
        if path == ":memory:" {
            return wrong("the in-memory form has no slashes");
        }
        if path.contains('?') {
            return wrong("it has parameters after a `?`, which jobq does not support");
        }
        if let Some(stray) = stray(path) {
            return wrong(&format!("its file name {stray}"));
        }
        match std::path::absolute(path) {
            Ok(path) => Ok(Self::File(path)),
            Err(source) => {
                let message =
                    format!("`{url}` is relative, but the current directory cannot be determined");
                Err(Error::invalid(message).with_source(source))
            }
        }
    }

    /// The path of the file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::File(path) => Some(path),
        }
    }
}

/// The identity of a file, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Place {
    /// The identity of the file at the path; `None` if there is none or the system does not tell.
    #[cfg(unix)]
    pub(super) fn identity(&self) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt as _;

        let file = std::fs::metadata(self.file()?).ok()?;
        Some(Identity { device: file.dev(), inode: file.ino() })
    }

    #[cfg(not(unix))]
    pub(super) fn identity(&self) -> Option<Identity> {
        None
    }

    /// Whether the path names the file that was opened, as far as the system tells.
    pub(super) fn is_still(&self, opened: Option<Identity>) -> bool {
        let found = self.identity();
        let is_there = found.is_some() || self.file().is_none() || cfg!(not(unix));
        is_there && found == opened
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("the job file in memory"),
            Self::File(path) => write!(f, "the job file {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_files() {
        let here = std::env::current_dir().unwrap();
        let table = [
            ("sqlite::memory:", Place::Memory),
            ("sqlite://jobs.db", Place::File(here.join("jobs.db"))),
            ("sqlite://data/jobs.db", Place::File(here.join("data/jobs.db"))),
            ("sqlite:///var/jobs.db", Place::File("/var/jobs.db".into())),
            // A URI of SQLite is an ordinary file name here.
            ("sqlite://file:x", Place::File(here.join("file:x"))),
            ("sqlite://a b%20c.db", Place::File(here.join("a b%20c.db"))),
        ];
        for (url, expected) in table {
            assert_eq!(Place::parse(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn other_urls_are_explained() {
        let table = [
            ("sqlite://", "it does not name a file"),
            ("sqlite:", "is not followed by `//`"),
            ("sqlite:jobs.db", "is not followed by `//`"),
            ("sqlite:/jobs.db", "is not followed by `//`"),
            ("sqlite://:memory:", "the in-memory form has no slashes"),
            ("sqlite://jobs.db?mode=ro", "it has parameters after a `?`"),
            ("sqlite::memory:?cache=shared", "is not followed by `//`"),
            ("sqlite://a\0b", "its file name contains a NUL (U+0000)"),
            ("sqlite:// a", "its file name begins with a space (U+0020)"),
        ];
        for (url, expected) in table {
            let error = Place::parse(url).unwrap_err();
            assert!(error.is_invalid(), "{url}: {error:?}");
            let message = error.to_string();
            assert!(message.contains(expected) && message.contains(url), "{url}: {message}");
        }
    }
}
