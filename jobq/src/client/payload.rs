use std::any::type_name;
use std::fmt;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::job::{Job, MAX_PAYLOAD, codec};

/// The encoded payload of a job or an event, or the error.
///
/// It is encoded when the builder is made, so that the future does not depend on the job's type,
/// and the compiler reports a type that is no job only once.
pub(crate) struct Payload(pub(crate) Result<Vec<u8>>);

impl Payload {
    pub(crate) fn of_job<J: Job>(job: &J) -> Self {
        let what = format_args!("the payload of job `{}`", J::NAME);
        let payload = write(job, &what);
        if const { J::OPTIONS.is_read_back(cfg!(debug_assertions)) } {
            return Self(payload.and_then(read_back::<J>));
        }
        Self(payload)
    }

    /// The payload of a job without a type.
    pub(super) fn of_named<P: Serialize + ?Sized>(payload: &P, name: &str) -> Self {
        let what = format_args!("the payload of job `{}`", name.escape_debug());
        Self(write(payload, &what))
    }

    pub(super) fn of_event<E: Serialize + ?Sized>(event: &E, topic: &str) -> Self {
        Self(write(event, &format_args!("the event `{topic}`")))
    }
}

/// Returns the payload if a worker can decode it.
fn read_back<J: Job>(payload: Vec<u8>) -> Result<Vec<u8>> {
    match codec::decode::<J>(&payload) {
        Ok(_) => Ok(payload),
        Err(error) => Err(Error::invalid(format!(
            "job `{}` was not enqueued: no worker could read its payload, since `{}` cannot be read \
             from the JSON that it is written as: {error}; give the field a type that serde reads back \
             (a text for an integer of more than 64 bits or a map's key, no `flatten`, `tag` or \
             `untagged` around it)",
            J::NAME,
            type_name::<J>()
        ))
        .because(error)),
    }
}

fn write<T: Serialize + ?Sized>(value: &T, what: &fmt::Arguments<'_>) -> Result<Vec<u8>> {
    let payload = codec::encode(value)
        .map_err(|source| Error::invalid(format!("{what} cannot be written as JSON: {source}")))?;
    if payload.len() > MAX_PAYLOAD {
        return Err(Error::invalid(format!(
            "{what} has {} bytes, more than the {MAX_PAYLOAD} allowed; store the data elsewhere \
             and send where to find it",
            payload.len()
        )));
    }
    Ok(payload)
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(payload) => write!(f, "{} bytes", payload.len()),
            Err(error) => error.fmt(f),
        }
    }
}
