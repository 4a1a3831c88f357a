//! The ends of a command: exit codes and errors.

use std::fmt;
use std::io;

use jobq::{Error, ErrorKind};

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All was done. A filter that matches nothing is done, too.
    Done,
    /// A check says no.
    No,
    /// The command line is wrong.
    Usage,
    /// A part was done, or it was cancelled.
    Partly,
    /// There is no such job, pool or queue.
    NotFound,
    /// The broker or the file cannot be reached or refused. What may have been done is in the error.
    Refused,
}

impl End {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::Partly => 3,
            Self::NotFound => 4,
            Self::Refused => 5,
        }
    }
}

/// The result of a command.
pub(crate) type Ended = Result<End, Problem>;

/// The reason that ended a command early.
#[derive(Debug)]
pub(crate) enum Problem {
    /// An error of the library.
    Jobq(Error),
    /// Something that the command line should say, or says wrongly.
    Usage(String),
    /// There is no such queue.
    NotFound(String),
    /// Something outside of the command line and the library, before anything was done.
    Refused(String),
    /// Standard output cannot be written to.
    Output(io::Error),
}

impl Problem {
    /// The end that it means.
    pub(crate) fn end(&self) -> End {
        match self {
            Self::Jobq(error) => end_of(error),
            Self::Usage(_) => End::Usage,
            Self::NotFound(_) => End::NotFound,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => End::Done,
            // It was done before it was told.
            Self::Output(_) => End::Partly,
            Self::Refused(_) => End::Refused,
        }
    }
}

/// The end of a check whose answer was printed. A reader that closed the pipe does not change it.
pub(crate) fn checked(end: End, printed: io::Result<()>) -> Ended {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(end),
    }
}

/// The end of a command that an error of the library ends.
fn end_of(error: &Error) -> End {
    match error.kind() {
        _ if error.maybe_enqueued() => End::Partly,
        ErrorKind::Invalid => End::Usage,
        ErrorKind::NotFound => End::NotFound,
        _ => End::Refused,
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobq(error) => {
                let mut text = error.to_string();
                let mut link = std::error::Error::source(error);
                while let Some(cause) = link {
                    let said = cause.to_string();
                    // Many errors have the text of their cause in their own.
                    if !text.contains(&said) {
                        text.push_str("\n  because: ");
                        text.push_str(&said);
                    }
                    link = cause.source();
                }
                f.write_str(&text)?;
                if error.maybe_enqueued() {
                    f.write_str("\n  the job may be in its queue nevertheless")?;
                }
                Ok(())
            }
            Self::Usage(text) | Self::NotFound(text) | Self::Refused(text) => f.write_str(text),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Jobq(error)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = |text: &str| io::Error::other(text.to_owned());
        for (text, source, expected) in [
            ("cannot connect", "refused", "cannot connect\n  because: refused"),
            ("cannot connect: refused", "refused", "cannot connect: refused"),
        ] {
            let error = Error::new(ErrorKind::Connection, text).with_source(cause(source));
            assert_eq!(Problem::Jobq(error).to_string(), expected);
        }
    }

    #[test]
    fn a_closed_pipe_changes_no_answer() {
        let failed = |kind| Err(io::Error::from(kind));
        assert_eq!(checked(End::No, Ok(())).unwrap(), End::No);
        assert_eq!(checked(End::No, failed(io::ErrorKind::BrokenPipe)).unwrap(), End::No);
        assert!(checked(End::No, failed(io::ErrorKind::StorageFull)).is_err());
    }

    #[test]
    fn an_error_has_the_exit_code_of_its_kind() {
        let error = |kind| Problem::Jobq(Error::new(kind, "no"));
        let unsure = Error::new(ErrorKind::Timeout, "no").and_maybe_enqueued();
        let output = |kind| Problem::Output(io::Error::from(kind));
        for (problem, code) in [
            (error(ErrorKind::Invalid), 2),
            (error(ErrorKind::NotFound), 4),
            (error(ErrorKind::Connection), 5),
            (error(ErrorKind::Refused), 5),
            (error(ErrorKind::Conflict), 5),
            (error(ErrorKind::Timeout), 5),
            (error(ErrorKind::Unsupported), 5),
            (Problem::Jobq(unsure), 3),
            (Problem::Usage(String::new()), 2),
            (Problem::Refused(String::new()), 5),
            (output(io::ErrorKind::BrokenPipe), 0),
            (output(io::ErrorKind::StorageFull), 3),
        ] {
            assert_eq!(problem.end().code(), code, "{problem:?}");
        }
    }
}
