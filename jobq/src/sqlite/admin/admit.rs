//! Jobs that come from another engine.

use std::time::Instant;

use crate::engine::{Admission, NotPushed};
use crate::error::Result;
use crate::job::{EventEnvelope, FailedJob};
use crate::sqlite::inbox::Inbox;
use crate::sqlite::push::{self, New};
use crate::sqlite::store::{Store, unknown};
use crate::sqlite::{columns, events};

/// Something to insert, with what it needs in a transaction that may run twice.
enum Arrival {
    Job(New),
    Solo(New, u32),
    Failed(FailedJob),
    /// With the time at which its wait began.
    Event(EventEnvelope, Instant),
}

/// Stores a batch in one transaction.
pub(super) async fn admit(inbox: &Inbox, batch: Vec<Admission>) -> Vec<NotPushed> {
    let count = batch.len();
    let arrival = |admission| match admission {
        Admission::Job(job) => Arrival::Job(New::from(job)),
        Admission::Solo(job, starts) => Arrival::Solo(New::from(job), starts),
        Admission::Failed(job) => Arrival::Failed(job),
        Admission::Event(event) => Arrival::Event(event, Instant::now()),
    };
    let batch: Vec<Arrival> = batch.into_iter().map(arrival).collect();
    let storing = inbox.try_run(move |store| {
        let mut refused = Vec::new();
        for (place, arrival) in batch.iter().enumerate() {
            if let Err(error) = insert(store, arrival)? {
                refused.push((place, error));
            }
        }
        Ok(refused)
    });
    match storing.await {
        Ok(refused) => refused,
        Err(failure) => (0..count).map(|place| (place, failure.error())).collect(),
    }
}

fn insert(store: &mut Store<'_>, arrival: &Arrival) -> rusqlite::Result<Result<()>> {
    match arrival {
        Arrival::Job(job) => push::insert(store, job),
        Arrival::Solo(job, starts) => {
            if let Err(error) = push::insert(store, job)? {
                return Ok(Err(error));
            }
            let sql = "UPDATE jobs SET solo = ?1 WHERE seq = last_insert_rowid()";
            store.connection.prepare_cached(sql)?.execute([starts])?;
            Ok(Ok(()))
        }
        Arrival::Failed(job) => insert_failed(store, job),
        Arrival::Event(event, since) => events::publish(store, event, *since, false),
    }
}

fn insert_failed(store: &mut Store<'_>, job: &FailedJob) -> rusqlite::Result<Result<()>> {
    let envelope = job.envelope();
    let Some(queue) = store.queue(&envelope.queue)? else {
        return Ok(Err(unknown(&envelope.queue)));
    };
    let sql = "INSERT INTO failed (queue, failed_at, attempts, reason, error, job_id, enqueued_at,
            retry_wait, name, topic, enqueued_by, payload, headers, content_encoding)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    store.connection.prepare_cached(sql)?.execute((
        queue,
        columns::of_time(job.failed_at()),
        job.attempts(),
        job.reason().as_str(),
        job.full_error(),
        envelope.id.as_bytes(),
        columns::of_time(envelope.enqueued_at),
        envelope.retry_wait.map(columns::of_wait),
        envelope.name.as_deref(),
        envelope.topic.as_deref(),
        envelope.enqueued_by.as_deref(),
        &envelope.payload,
        columns::of_headers(&envelope.headers),
        envelope.content_encoding.as_deref(),
    ))?;
    Ok(Ok(()))
}
