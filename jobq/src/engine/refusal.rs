//! Errors with the same text for all engines.

use super::Counts;
use crate::error::{Error, ErrorKind, Result};

/// The error of a mandatory event that reaches no queue.
pub(crate) fn nobody_subscribes(topic: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "no subscriber matches topic `{topic}`; declare a job whose `on` matches it before you \
             publish the event"
        ),
    )
}

/// Returns an error if a queue to delete has jobs or `users`.
pub(crate) fn must_be_unused(queue: &str, jobs: Counts, users: &[(u64, &str)]) -> Result<()> {
    if jobs.is_empty() && users.iter().all(|(count, _)| *count == 0) {
        return Ok(());
    }
    let users: Vec<_> = users.iter().map(|(count, what)| format!(", {count} {what}")).collect();
    let users = users.concat();
    let Counts { ready, waiting, failed } = jobs;
    Err(Error::new(
        ErrorKind::Refused,
        format!(
            "queue `{queue}` was not deleted: it has {ready} jobs ready, {waiting} waiting, \
             {failed} failed{users}; stop its pools and handle its jobs first, or use `.force()` \
             to delete them with the queue"
        ),
    ))
}
