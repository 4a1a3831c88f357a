//! Everything that was enqueued and published, for assertions.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use crate::engine::Settlement;
use crate::job::{Envelope, EventEnvelope, JobId, from_millis};
use crate::period;
use crate::testing::expect::Entry;

/// Where a job or an event was enqueued.
type Place = &'static Location<'static>;

/// The jobs and events since the start, in order.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) jobs: Vec<Enqueued>,
    /// Each with its id.
    pub(super) events: Vec<(JobId, Entry)>,
    /// Places of what is about to be enqueued.
    pub(super) places: HashMap<JobId, Place>,
}

/// A job that was enqueued.
#[derive(Debug)]
pub(super) struct Enqueued {
    /// Ascending.
    number: u64,
    pub(super) envelope: Arc<Envelope>,
    due: SystemTime,
    place: Option<Place>,
    /// How its attempts ended.
    runs: Vec<String>,
}

impl Enqueued {
    pub(super) fn entry(&self, name: &str) -> Entry {
        let Self { envelope, due, place, runs, .. } = self;
        let (payload, runs) = (envelope.payload.clone(), runs.clone());
        Entry { name: name.to_owned(), payload, place: *place, due: *due, runs }
    }
}

impl History {
    /// A job with this number, due at this time if that is ever reached.
    pub(super) fn enqueued(
        &mut self,
        number: u64,
        envelope: Arc<Envelope>,
        due: Option<SystemTime>,
    ) {
        let place = match envelope.topic {
            // The copies of an event have its id and its place.
            Some(_) => self.event_place(envelope.id),
            None => self.places.remove(&envelope.id),
        };
        let due = time(due);
        self.jobs.push(Enqueued { number, envelope, due, place, runs: Vec::new() });
    }

    pub(super) fn published(&mut self, event: &EventEnvelope, due: Option<SystemTime>) {
        let entry = Entry {
            name: event.topic.clone(),
            payload: event.payload.clone(),
            place: self.places.remove(&event.id),
            due: time(due),
            runs: Vec::new(),
        };
        self.events.push((event.id, entry));
    }

    fn event_place(&self, id: JobId) -> Option<Place> {
        let published = self.events.iter().rev().find(|(event, _)| *event == id);
        self.places.get(&id).copied().or_else(|| published?.1.place)
    }

    /// Records the end of an attempt.
    pub(super) fn settled(&mut self, number: u64, attempt: u32, settlement: &Settlement) {
        let how = match settlement {
            Settlement::Complete => "completed".to_owned(),
            Settlement::Retry(wait) => {
                format!("failed, to be retried after {}", period::format(*wait))
            }
            Settlement::Snooze(wait) => format!("was snoozed for {}", period::format(*wait)),
            Settlement::Fail { reason, .. } => format!("failed for good ({reason})"),
            Settlement::Release | Settlement::Isolate | Settlement::Start => return,
        };
        self.ran(number, format!("attempt {attempt} {how}"));
    }

    /// Records an attempt by its end.
    pub(super) fn ran(&mut self, number: u64, how: String) {
        if let Ok(place) = self.jobs.binary_search_by_key(&number, |job| job.number) {
            self.jobs[place].runs.push(how);
        }
    }
}

/// The time that is shown for a due time, of which `None` is never reached.
fn time(due: Option<SystemTime>) -> SystemTime {
    due.unwrap_or_else(|| from_millis(u64::MAX))
}
