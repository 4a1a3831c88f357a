use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A result with jobq's [`Error`], for code that calls jobq. A job function, whose errors are of other
/// kinds, returns `Result<(), BoxError>`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call of jobq.
///
/// It is one opaque type, so that later versions can report causes in more detail without breaking
/// programs. Programs can act on its [`kind`](Self::kind) and the methods below; the message is for
/// people. It never contains a password.
///
/// ```
/// # async fn example(client: jobq::Client) {
/// match client.failed("no such queue").list(10).await {
///     Err(error) if error.is_invalid() => println!("not a queue's name: {error}"),
///     Err(error) if error.is_connection() => println!("try again later: {error}"),
///     Err(error) => println!("{error}"),
///     Ok(jobs) => println!("{} failed jobs", jobs.len()),
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    maybe_enqueued: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed something invalid: a bad name, URL or payload, two jobs of one name, a
    /// missing state.
    Invalid,
    /// The engine does not support the call, or this program was built without it.
    Unsupported,
    /// The broker cannot be reached, or the connection was lost.
    Connection,
    /// The broker or the file refused the call: no permission, no space, a damaged file.
    Refused,
    /// A queue or exchange exists with other properties than jobq's, or another call got in the
    /// way.
    Conflict,
    /// The engine did not answer in time.
    Timeout,
    /// There is no such failed job or queue.
    NotFound,
    /// The worker no longer holds the delivery: its connection or its lease has ended, and the job
    /// is delivered again.
    Stale,
    /// The client or the pool was shut down.
    Closed,
}

impl Error {
    /// An error of this kind. The message names the thing, what was expected, what was
    /// found, and what to do next.
    #[cold]
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Arc::new(Inner { kind, message, maybe_enqueued: false, source: None }))
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Sets the source of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(source.into().into());
        self
    }

    /// Marks that the job may have been enqueued nevertheless.
    #[must_use]
    pub fn and_maybe_enqueued(mut self) -> Self {
        Arc::make_mut(&mut self.0).maybe_enqueued = true;
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The caller passed something invalid; a retry does not help.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.kind() == ErrorKind::Invalid
    }

    /// The engine does not support the call.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.kind() == ErrorKind::Unsupported
    }

    /// The broker cannot be reached or the connection was lost; a retry may help.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        self.kind() == ErrorKind::Connection
    }

    /// The engine did not answer in time; a retry may help.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// The broker or the file refused the call: a permission, space, a damaged file. A retry helps
    /// once the cause, which the message names, is removed.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.kind() == ErrorKind::Refused
    }

    /// A queue or exchange exists with other properties than jobq's, or another call got in the
    /// way.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }

    /// There is no such failed job or queue.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// The worker no longer holds the delivery.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.kind() == ErrorKind::Stale
    }

    /// The client or the pool was shut down.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }

    /// Whether the cause may go away without a change to the program: by itself, or because a
    /// person grants a permission, creates a vhost, or removes a conflicting queue.
    pub(crate) fn may_pass(&self) -> bool {
        use ErrorKind::{Conflict, Connection, Refused, Timeout};
        matches!(self.kind(), Connection | Timeout | Refused | Conflict)
    }

    /// Whether a job whose `enqueue` returned this error may be in the queue nevertheless: the
    /// connection was lost, or the timeout passed, after it was sent and before the answer came.
    /// Enqueueing it again may then make two jobs. If `false`, the job is certainly not in the
    /// queue.
    ///
    /// ```
    /// # use jobq::{Client, JobId, job};
    /// # #[job] async fn charge(order: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// // The function uses its id as a key, so that two jobs of one id charge once.
    /// let charge = || client.enqueue(Charge { order: 7 }).id(JobId::of_key("charge-7"));
    /// if let Err(error) = charge().await {
    ///     let doubt = if error.maybe_enqueued() { "may be" } else { "is not" };
    ///     eprintln!("the job {doubt} enqueued: {error}");
    ///     charge().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn maybe_enqueued(&self) -> bool {
        self.0.maybe_enqueued
    }
}

/// Serialized as its message.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    /// Writes the kind, the message and all causes, as printed if `main` returns the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        let mut link = self.source();
        while let Some(cause) = link {
            write!(f, "\n  because: {cause}")?;
            link = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_method() {
        use ErrorKind::*;
        let questions = [
            (Invalid, Error::is_invalid as fn(&Error) -> bool),
            (Unsupported, Error::is_unsupported),
            (Connection, Error::is_connection),
            (Refused, Error::is_refused),
            (Conflict, Error::is_conflict),
            (Timeout, Error::is_timeout),
            (NotFound, Error::is_not_found),
            (Stale, Error::is_stale),
            (Closed, Error::is_closed),
        ];
        for (kind, _) in questions {
            let error = Error::new(kind, "no");
            for (other, question) in questions {
                assert_eq!(question(&error), kind == other, "{kind:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_debug_form_has_all_causes() {
        let error = Error::new(ErrorKind::Connection, "cannot reach the broker at localhost:1")
            .with_source(std::io::Error::other("connection refused"))
            .and_maybe_enqueued();
        assert_eq!(error.to_string(), "cannot reach the broker at localhost:1");
        assert_eq!(
            format!("{error:?}"),
            "Connection: cannot reach the broker at localhost:1\n  because: connection refused"
        );
        assert!(error.is_connection() && error.maybe_enqueued() && !error.is_invalid());
    }
}
