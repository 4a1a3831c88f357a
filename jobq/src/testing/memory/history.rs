//! Everything that was enqueued and published, for assertions.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use crate::engine::Settlement;
use crate::job::{Envelope, EventEnvelope, JobId};
use crate::period;

/// Where a job or an event was enqueued.
type Place = &'static Location<'static>;

/// The jobs and events since the start, in order.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) jobs: Vec<Enqueued>,
    pub(crate) events: Vec<Published>,
    /// Places of what is about to be enqueued.
    places: HashMap<JobId, Place>,
}

/// A job that was enqueued.
#[derive(Debug, Clone)]
pub(crate) struct Enqueued {
    /// Ascending.
    pub(crate) number: u64,
    pub(crate) envelope: Arc<Envelope>,
    /// `None` is never reached.
    pub(crate) due: Option<SystemTime>,
    pub(crate) place: Option<Place>,
    /// How its attempts ended.
    pub(crate) runs: Vec<String>,
}

/// An event that was published.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) id: JobId,
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    /// `None` is never reached.
    pub(crate) due: Option<SystemTime>,
    pub(crate) place: Option<Place>,
}

impl Published {
    pub(crate) fn of(event: &EventEnvelope, due: Option<SystemTime>) -> Self {
        let (id, topic, payload) = (event.id, event.topic.clone(), event.payload.clone());
        Self { id, topic, payload, due, place: None }
    }
}

impl History {
    /// Remembers where the job or event with this id is enqueued next.
    pub(crate) fn expect(&mut self, id: JobId, place: Place) {
        self.places.insert(id, place);
    }

    pub(crate) fn enqueued(
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
        self.jobs.push(Enqueued { number, envelope, due, place, runs: Vec::new() });
    }

    pub(crate) fn published(&mut self, event: Published) {
        let place = self.places.remove(&event.id);
        self.events.push(Published { place, ..event });
    }

    fn event_place(&self, id: JobId) -> Option<Place> {
        let published = self.events.iter().rev().find(|event| event.id == id);
        self.places.get(&id).copied().or_else(|| published?.place)
    }

    /// Records the end of an attempt.
    pub(crate) fn settled(&mut self, number: u64, attempt: u32, settlement: &Settlement) {
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
    pub(crate) fn ran(&mut self, number: u64, how: String) {
        if let Ok(place) = self.jobs.binary_search_by_key(&number, |job| job.number) {
            self.jobs[place].runs.push(how);
        }
    }
}
