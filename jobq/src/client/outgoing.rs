//! Hooks that run before a job or an event is enqueued.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::guard::{self, guarded};
use crate::job::{BoxError, Headers, JobId};

/// A job or an event about to be enqueued, for hooks of
/// [`ClientBuilder::on_enqueue`](crate::ClientBuilder::on_enqueue).
#[derive(Debug)]
pub struct Outgoing {
    id: JobId,
    what: What,
    location: &'static Location<'static>,
    headers: Headers,
}

#[derive(Debug)]
pub(super) enum What {
    Job { name: Cow<'static, str>, queue: Cow<'static, str> },
    Event { topic: String },
}

impl Outgoing {
    /// The id of the job or event.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job's name; `None` for an event.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.what {
            What::Job { name, .. } => Some(name),
            What::Event { .. } => None,
        }
    }

    /// The job's queue; `None` for an event.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        match &self.what {
            What::Job { queue, .. } => Some(queue),
            What::Event { .. } => None,
        }
    }

    /// The event's topic; `None` for a job.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        match &self.what {
            What::Job { .. } => None,
            What::Event { topic } => Some(topic),
        }
    }

    /// The call of [`Client::enqueue`](crate::Client::enqueue),
    /// [`enqueue_all`](crate::Client::enqueue_all) or [`publish`](crate::Client::publish) in the
    /// source of the program.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// The headers so far: those of the call and of previous hooks.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Sets a header, replacing one of the same name.
    ///
    /// # Errors
    ///
    /// As [`Headers::set`].
    pub fn header(&mut self, name: &str, value: impl Into<String>) -> Result<(), BoxError> {
        Ok(self.headers.set(name, value)?)
    }
}

type Hook = dyn Fn(&mut Outgoing) -> Result<(), BoxError> + Send + Sync;

/// The hooks of a client, in calling order.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Vec<Arc<Hook>>);

impl Hooks {
    pub(crate) fn add(
        &mut self,
        hook: impl Fn(&mut Outgoing) -> Result<(), BoxError> + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(hook));
    }

    /// Runs the hooks, and returns the resulting headers.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a hook fails or panics.
    pub(super) fn call(
        &self,
        id: JobId,
        what: impl FnOnce() -> What,
        location: &'static Location<'static>,
        headers: Headers,
    ) -> Result<Headers> {
        if self.0.is_empty() {
            return Ok(headers);
        }
        let mut outgoing = Outgoing { id, what: what(), location, headers };
        for hook in &self.0 {
            let refused = match guarded(|| hook(&mut outgoing)) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => {
                    Error::invalid(outgoing.refused(&error.to_string())).with_source(error)
                }
                Err(panic) => Error::invalid(outgoing.refused(&guard::text(panic))),
            };
            return Err(refused);
        }
        Ok(outgoing.headers)
    }
}

impl Outgoing {
    fn refused(&self, error: &str) -> String {
        let what = match &self.what {
            What::Job { name, .. } => format!("job `{name}`"),
            What::Event { topic } => format!("event `{topic}`"),
        };
        format!("{what} was not enqueued: an `on_enqueue` hook refused it: {error}")
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hooks", self.0.len())
    }
}
