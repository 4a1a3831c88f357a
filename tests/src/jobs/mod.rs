//! Jobs for tests: those of programs have a file each, and those at the level of engines are here.

pub mod ends_worker;
pub mod fails_first;
pub mod reports_runs;
pub mod soak_job;
pub mod tick;
pub mod waits_for_others;

use std::time::SystemTime;

use jobq::JobId;
use jobq::engine::{Engine, Envelope, EventEnvelope, QueueSpec};

/// A job with the least in it.
#[must_use]
pub fn job(queue: &str) -> Envelope {
    let new = Envelope::new(queue.to_owned(), b"{}".to_vec());
    with(new, |job| job.name = Some("greet".into()))
}

/// A job or an event that is changed.
#[must_use]
pub fn with<E>(mut envelope: E, change: impl FnOnce(&mut E)) -> E {
    change(&mut envelope);
    envelope
}

/// Declares a queue.
///
/// # Panics
///
/// If the engine does not.
pub async fn ready(engine: &dyn Engine, queue: &str) {
    let spec = QueueSpec::new(queue);
    engine.declare(&[spec]).await.expect("declares");
}

/// Pushes jobs, which must all be accepted, and gives their ids.
///
/// # Panics
///
/// If one is not.
pub async fn push(engine: &dyn Engine, queue: &str, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = (0..count).map(|_| job(queue)).collect();
    let ids = jobs.iter().map(|job| job.id).collect();
    let not_pushed = engine.push_all(&mut jobs.into_iter()).await;
    assert!(not_pushed.is_empty(), "{not_pushed:?}");
    ids
}

/// An event with the least in it.
#[must_use]
pub fn event(topic: &str) -> EventEnvelope {
    let new = EventEnvelope::new(topic, b"{}".to_vec());
    with(new, |event| event.published_at = SystemTime::UNIX_EPOCH)
}
