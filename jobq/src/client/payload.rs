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
        Self(write(job, &what).and_then(|(payload, is_wide)| {
            if is_wide {
                codec::decode::<J>(&payload).map_err(|source| {
                    let problem = "has an integer of more than 64 bits that its type cannot read";
                    Error::invalid(format!("{what} {problem}; make it a string")).because(source)
                })?;
            }
            Ok(payload)
        }))
    }

    /// The payload of a job without a type.
    pub(super) fn of_named<P: Serialize + ?Sized>(payload: &P, name: &str) -> Self {
        let what = format_args!("the payload of job `{}`", name.escape_debug());
        Self(write(payload, &what).map(|(payload, _)| payload))
    }

    pub(super) fn of_event<E: Serialize + ?Sized>(event: &E, topic: &str) -> Self {
        Self(write(event, &format_args!("the event `{topic}`")).map(|(payload, _)| payload))
    }
}

/// Encodes a value, and returns whether it has an integer of more than 64 bits.
fn write<T: Serialize + ?Sized>(value: &T, what: &fmt::Arguments<'_>) -> Result<(Vec<u8>, bool)> {
    let (payload, is_wide) = codec::encode(value)
        .map_err(|source| Error::invalid(format!("{what} cannot be written as JSON: {source}")))?;
    if payload.len() > MAX_PAYLOAD {
        return Err(Error::invalid(format!(
            "{what} has {} bytes, more than the {MAX_PAYLOAD} allowed; store the data elsewhere \
             and send where to find it",
            payload.len()
        )));
    }
    Ok((payload, is_wide))
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(payload) => write!(f, "{} bytes", payload.len()),
            Err(error) => error.fmt(f),
        }
    }
}
