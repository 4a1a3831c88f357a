//! Forms that the assertions of the test kit accept, in a program with strict lints.

#![deny(warnings, unused_lifetimes, trivial_casts, clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(unsafe_code)]

mod failures;
mod patterns;
mod renamed;

// As if Cargo.toml called it so; the same package cannot be there under two names.
extern crate jobq as renamed_jobq;

use std::panic::Location;
use std::time::{Duration, SystemTime};

use jobq::testing::__private::{Entry, Record, Recorded};
use jobq::{BoxError, Event, Job, job};
use serde::{Deserialize, Serialize};

/// Jobs and events in place of those of a test.
#[derive(Default)]
struct Recording {
    jobs: Vec<Entry>,
    events: Vec<Entry>,
}

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

impl Recording {
    #[track_caller]
    fn job<J: Job>(mut self, payload: &J) -> Self {
        self.jobs.push(entry(J::NAME, payload));
        self
    }

    #[track_caller]
    fn event<E: Event>(mut self, event: &E) -> Self {
        self.events.push(entry(E::TOPIC, event));
        self
    }

    /// The last job waits.
    fn due_in(mut self, wait: Duration) -> Self {
        self.last().due = NOW + wait;
        self
    }

    fn last(&mut self) -> &mut Entry {
        self.jobs.last_mut().expect("there is a job")
    }

    /// The last job has run.
    fn run(mut self, attempt: &str) -> Self {
        self.last().runs.push(attempt.to_owned());
        self
    }
}

#[track_caller]
fn entry<T: Serialize>(name: &str, payload: &T) -> Entry {
    Entry {
        name: name.to_owned(),
        payload: serde_json::to_vec(payload).expect("the payload is JSON"),
        place: Some(Location::caller()),
        due: NOW,
        runs: Vec::new(),
    }
}

impl Recorded for Recording {
    fn record(&self) -> Record {
        Record { now: NOW, jobs: self.jobs.clone(), events: self.events.clone() }
    }
}

#[job]
async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
    Err(format!("{user_id} {email}").into())
}

#[job]
async fn charge(cents: u64) -> Result<(), BoxError> {
    Err(cents.to_string().into())
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

fn welcome(user_id: u64, email: &str) -> SendWelcome {
    SendWelcome { user_id, email: email.to_owned() }
}
