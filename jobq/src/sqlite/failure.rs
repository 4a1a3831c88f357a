//! The failures of the file, each with the error for its callers.

use std::sync::Arc;

use rusqlite::ErrorCode;

use super::place::Place;
use crate::engine::closed;
use crate::error::{Error, ErrorKind};

/// The problem of a file that this user may only read.
pub(super) const READ_ONLY: &str =
    "is read-only; grant this user write permission on the file and its directory";

/// The error of opening a file that jobq has no use for.
pub(super) enum OpenError {
    Sqlite(rusqlite::Error),
    Unfit(String),
}

impl From<rusqlite::Error> for OpenError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(source)
    }
}

/// The cause of a failed transaction. It makes one error for each caller in it.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The engine was closed before the transaction.
    Closed,
    /// The thread ended during the transaction.
    Lost,
    /// The file was removed or replaced.
    Gone { place: Place, maybe_done: bool },
    /// This user may only read the file.
    ReadOnly(Place),
    /// The file is not what the call needs.
    Unfit(Arc<str>),
    /// SQLite returned an error.
    Sqlite { kind: ErrorKind, message: Arc<str>, source: Arc<rusqlite::Error>, maybe_done: bool },
}

impl Failure {
    pub(super) fn new(place: &Place, source: rusqlite::Error) -> Self {
        use ErrorCode as Code;
        use ErrorKind::{Refused, Timeout};
        let (kind, what) = match source.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => (
                Timeout,
                "is locked by another process for longer than the client's timeout; stop that \
                 process (`fuser` names it), or raise the timeout",
            ),
            Some(Code::DiskFull) => (Refused, "has no space left on its disk; free disk space"),
            Some(Code::ReadOnly) => (
                Refused,
                "cannot be written; grant this user write permission on the file and its directory",
            ),
            Some(Code::NotADatabase) => {
                (Refused, "is not an SQLite file; use another file, or move this one away")
            }
            Some(Code::DatabaseCorrupt) => (
                Refused,
                "is damaged; stop all processes that use it, then restore a copy or recover what \
                 is readable with `sqlite3 FILE .recover`",
            ),
            Some(Code::CannotOpen | Code::PermissionDenied) => (
                Refused,
                "cannot be opened; grant this user read and write permission on the file and its \
                 directory",
            ),
            _ => (Refused, "could not be read or written"),
        };
        let message = format!("{place} {what}");
        let source = Arc::new(source);
        Self::Sqlite { kind, message: message.into(), source, maybe_done: false }
    }

    /// The failure of a call that needs the file to be otherwise.
    pub(super) fn unfit(place: &Place, problem: &str) -> Self {
        Self::Unfit(format!("{place} {problem}").into())
    }

    /// The failure of opening or migrating a file.
    pub(super) fn of_open(place: &Place, error: OpenError) -> Self {
        match error {
            OpenError::Sqlite(source) => Self::new(place, source),
            OpenError::Unfit(problem) => Self::unfit(place, &problem),
        }
    }

    /// The failure of a commit. SQLite rolls it back, but if the disk failed it cannot know what
    /// the disk has kept.
    pub(super) fn of_commit(place: &Place, source: rusqlite::Error) -> Self {
        let certain = matches!(
            source.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull | ErrorCode::ReadOnly)
        );
        let mut failure = Self::new(place, source);
        if let Self::Sqlite { maybe_done, .. } = &mut failure {
            *maybe_done = !certain;
        }
        failure
    }

    /// Whether a retry cannot succeed.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Closed | Self::Lost | Self::Gone { .. } | Self::ReadOnly(_) | Self::Unfit(_) => {
                true
            }
            Self::Sqlite { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            ),
        }
    }

    /// The error for a caller.
    #[cold]
    pub(super) fn error(&self) -> Error {
        match self {
            Self::Closed => closed(),
            Self::Lost => closed().and_maybe_enqueued(),
            Self::Gone { place, maybe_done } => {
                let message = format!(
                    "{place} was removed or replaced while this program had it open, so anything \
                     written now would be lost; restore it, or restart the program with the \
                     current file"
                );
                let error = Error::new(ErrorKind::Refused, message);
                if *maybe_done { error.and_maybe_enqueued() } else { error }
            }
            Self::ReadOnly(place) => Error::new(ErrorKind::Refused, format!("{place} {READ_ONLY}")),
            Self::Unfit(message) => Error::new(ErrorKind::Refused, &**message),
            Self::Sqlite { kind, message, source, maybe_done } => {
                let error = Error::new(*kind, &**message).with_source(Arc::clone(source));
                if *maybe_done { error.and_maybe_enqueued() } else { error }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn a_failure_names_the_file_and_what_to_do() {
        use rusqlite::ffi;
        let place = Place::File("/data/jobs.db".into());
        let table = [
            (ffi::SQLITE_BUSY, ErrorKind::Timeout, "is locked by another process"),
            (ffi::SQLITE_FULL, ErrorKind::Refused, "no space left on its disk"),
            (ffi::SQLITE_READONLY, ErrorKind::Refused, "cannot be written"),
            (ffi::SQLITE_NOTADB, ErrorKind::Refused, "is not an SQLite file"),
            (ffi::SQLITE_CORRUPT, ErrorKind::Refused, "is damaged"),
            (ffi::SQLITE_CANTOPEN, ErrorKind::Refused, "cannot be opened"),
            (ffi::SQLITE_IOERR, ErrorKind::Refused, "could not be read or written"),
        ];
        for (code, kind, text) in table {
            let error = Failure::new(&place, sqlite(code)).error();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("the job file /data/jobs.db "), "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(!error.maybe_enqueued());
        }
    }

    #[test]
    fn only_a_disk_error_at_commit_is_ambiguous() {
        use rusqlite::ffi;
        let is_ambiguous =
            |code| Failure::of_commit(&Place::Memory, sqlite(code)).error().maybe_enqueued();
        assert!(is_ambiguous(ffi::SQLITE_IOERR));
        assert!(!is_ambiguous(ffi::SQLITE_FULL));
        assert!(!is_ambiguous(ffi::SQLITE_BUSY));
    }
}
