//! The model of jobs, envelopes and outcomes.

pub(crate) mod codec;
mod control;
mod envelope;
pub(crate) mod exact;
mod failed;
mod failure;
mod faithful;
mod fields;
pub(crate) mod headers;
mod id;
pub(crate) mod millis;
mod options;
mod outcome;
#[cfg(feature = "schedules")]
mod periodic;
mod priority;
mod program;
pub(crate) mod rfc3339;
#[cfg(any(feature = "rabbitmq", feature = "sqlite", feature = "testing"))]
pub(crate) mod topic;

use jobq_names::name;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

pub use codec::MAX_PAYLOAD;
pub(crate) use codec::Payload;
pub(crate) use control::Ending;
pub use control::{BoxError, Control, abort, retry_in, snooze};
pub use envelope::{Envelope, EventEnvelope};
pub use failed::{FailedJob, FailedReason};
pub(crate) use failure::Failure;
pub use headers::Headers;
pub use id::JobId;
pub(crate) use millis::{from_millis, to_millis};
pub use options::{Delay, Exponential, JobOptions};
pub use outcome::{JobResult, Outcome};
#[cfg(feature = "schedules")]
pub(crate) use periodic::PeriodicTimes;
#[cfg(feature = "schedules")]
pub use periodic::{Missed, Periodic};
pub use priority::Priority;
pub(crate) use program::{check_program, program};

/// A type whose values can be enqueued: the payload of a job.
///
/// `#[job]` on a function generates one; `#[derive(Job)]` implements it for your own struct.
/// Written by hand it is:
///
/// ```
/// use jobq::{Job, JobOptions};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     image: u64,
/// }
///
/// impl Job for Resize {
///     const NAME: &'static str = "images.resize";
///     const OPTIONS: JobOptions = JobOptions::new().queue("images").retries(5);
/// }
/// assert_eq!(jobq::queue_of::<Resize>(), "images");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "not a job",
    note = "put `#[job]` on the function that does the work and use the type that it makes \
            (`send_welcome` makes `SendWelcome`), or put `#[derive(Job)]` on the payload's struct",
    note = "a job is passed by value, without `&`, and an iterator yields jobs by `.into_iter()` or \
            `.cloned()`; an event is published: `client.publish_event(&event)`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The job's name on the wire. It must stay the same for as long as jobs of this
    /// type may be waiting: `[A-Za-z0-9_.-]{1,120}`, no word between dots empty.
    const NAME: &'static str;
    /// The job's policy. Defaults to [`JobOptions::new`].
    const OPTIONS: JobOptions = JobOptions::new();
}

/// A type whose values can be published: an event with its topic.
///
/// `#[derive(Event)]` implements it; written by hand it is:
///
/// ```
/// use jobq::Event;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct UserCreated {
///     user_id: u64,
/// }
///
/// impl Event for UserCreated {
///     const TOPIC: &'static str = "user.created";
/// }
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// client.publish_event(&UserCreated { user_id: 7 }).await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "an event without a topic",
    note = "put `#[derive(Event)] #[event(topic = \"user.created\")]` on it, or name the topic: \
            `client.publish(\"user.created\", &event)`"
)]
pub trait Event: Serialize {
    /// The topic of the event: words with single dots between them, at
    /// most 200 bytes.
    const TOPIC: &'static str;
}

/// The queue of a job: that of its options, else the job's name.
#[must_use]
pub fn queue_of<J: Job>() -> &'static str {
    J::OPTIONS.queue.unwrap_or(J::NAME)
}

/// Checks a topic that the macros did not check.
pub(crate) fn check_topic(text: &str) -> Result<()> {
    jobq_names::topic::check(text).map_err(|problem| Error::invalid(problem.to_string()))
}

/// Checks the pattern of a subscriber that the macros did not check.
pub(crate) fn check_pattern(text: &str) -> Result<()> {
    jobq_names::topic::check_pattern(text).map_err(|problem| Error::invalid(problem.to_string()))
}

/// Checks the name of a job or a queue that the macros did not check.
pub(crate) fn check_name(what: &str, text: &str) -> Result<()> {
    name::check(text).map_err(|problem| Error::invalid(format!("the {what} name {problem}")))
}
