//! The jobs of schedules.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::Client;
use super::outgoing::What;
use crate::error::Result;
use crate::job::headers::{MISSED, SCHEDULE};
use crate::job::{Envelope, Headers, Priority};
use crate::schedule::book::Tick;

impl Client {
    /// The job of a schedule.
    ///
    /// # Errors
    ///
    /// A hook that refuses it.
    pub(crate) fn periodic_job(&self, queue: &str, tick: &Tick) -> Result<Envelope> {
        let Tick { id, spec, due, missed } = tick;
        let mut headers: Headers = spec.headers.clone().into_iter().collect();
        // As for other jobs, hooks see the headers of the program.
        let priority = headers.priority();
        headers.set_priority(Priority::Normal);
        let what = || What::Job {
            name: Cow::Owned(spec.job.clone()),
            queue: Cow::Owned(queue.to_owned()),
        };
        let mut headers = self.hooks().call(*id, what, Location::caller(), headers)?;
        headers.set_priority(priority);
        headers.put(SCHEDULE, &spec.name);
        if *missed > 0 {
            headers.put(MISSED, missed.to_string());
        }
        headers.set_due(*due);
        let mut job = Envelope::new(queue.to_owned(), spec.payload.clone().into_bytes());
        job.name = Some(spec.job.clone().into());
        job.headers = headers;
        job.set_id(*id);
        job.enqueued_at = self.clock().now();
        let expires = spec.expires_ms.map(Duration::from_millis);
        job.expires_at = expires.and_then(|expires| job.enqueued_at.checked_add(expires));
        job.enqueued_by = Some(Arc::clone(self.program()));
        Ok(job)
    }
}
