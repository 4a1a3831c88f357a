use std::fmt;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::job::{Job, MAX_PAYLOAD};

/// What is sent of a job or an event, or why it cannot be.
///
/// It is written as soon as the job is handed over, so that what is awaited knows
/// nothing of the job's type, and the compiler complains once about a type that is no
/// job.
pub(super) struct Payload(pub(super) Result<Vec<u8>>);

impl Payload {
    pub(super) fn of_job<J: Job>(job: &J) -> Self {
        Self(write(job, &format_args!("the payload of job `{}`", J::NAME)))
    }

    pub(super) fn of_event<E: Serialize + ?Sized>(event: &E, topic: &str) -> Self {
        Self(write(event, &format_args!("the event `{topic}`")))
    }
}

fn write<T: Serialize + ?Sized>(value: &T, what: &fmt::Arguments<'_>) -> Result<Vec<u8>> {
    let payload = serde_json::to_vec(value).map_err(|source| {
        Error::invalid(format!("{what} cannot be written as JSON")).because(source)
    })?;
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
