//! The jobs of one queue that are in flight, and their redeliveries. Pure.
//!
//! A job that is delivered again while it is in flight does not run twice at once: the redelivery
//! is held until the attempt is over. If the outcome of the attempt could not be recorded, the
//! redelivery is settled with it, whether it was held or comes later.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use tokio::time::Instant;

use crate::engine::{Delivery, Settlement};
use crate::job::{Envelope, JobId};

/// The most unrecorded outcomes that are kept.
const MAX_UNRECORDED: usize = 10_000;
/// How long an unrecorded outcome is kept: a later delivery may be a job that was put back.
pub(super) const REMEMBERED: Duration = Duration::from_secs(600);

/// Identifies the redeliveries of one attempt. The id alone does not: several jobs may have the
/// same.
#[derive(Debug)]
pub(super) struct Identity {
    envelope: Arc<Envelope>,
    attempt: u32,
    /// Two unsettled deliveries of one connection epoch are never one job.
    epoch: u64,
}

impl Identity {
    pub(super) fn of(delivery: &Delivery) -> Self {
        let (attempt, epoch) = (delivery.attempt, delivery.epoch());
        Self { envelope: delivery.shared_envelope(), attempt, epoch }
    }

    /// Whether the other one is the same attempt of the same job in another connection epoch.
    pub(super) fn is_redelivered_as(&self, other: &Self) -> bool {
        self.envelope.id == other.envelope.id
            && self.epoch != other.epoch
            && self.contents() == other.contents()
    }

    /// A fingerprint of the attempt.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.contents().hash(&mut hasher);
        hasher.finish()
    }

    fn contents(&self) -> impl PartialEq + Hash {
        let Envelope { name, payload, enqueued_at, headers, .. } = &*self.envelope;
        (self.attempt, name, payload, enqueued_at, headers)
    }
}

/// The jobs of one queue that are in flight; `D` is a delivery.
#[derive(Debug)]
pub(super) struct InFlight<D> {
    jobs: Slab<Job<D>>,
    /// The connection epoch of the newest delivery.
    epoch: u64,
    /// The number of jobs of other epochs.
    others: usize,
    unrecorded: Unrecorded,
}

#[derive(Debug)]
struct Job<D> {
    identity: Identity,
    held: Option<D>,
}

/// A delivery that is now in flight.
#[derive(Debug, PartialEq)]
pub(super) struct Admitted<D> {
    pub(super) key: usize,
    pub(super) delivery: D,
    /// The outcome of an earlier delivery. `None` if the job is to run.
    pub(super) outcome: Option<Settlement>,
}

impl<D> Default for InFlight<D> {
    fn default() -> Self {
        Self { jobs: Slab::new(), epoch: 0, others: 0, unrecorded: Unrecorded::default() }
    }
}

impl<D> InFlight<D> {
    /// Admits a delivery. `None` if it is held because its attempt is running.
    pub(super) fn admit(
        &mut self,
        identity: Identity,
        delivery: D,
        now: Instant,
    ) -> Option<Admitted<D>> {
        self.see(identity.epoch);
        if self.others > 0 {
            let is_same = |job: &Job<D>| job.identity.is_redelivered_as(&identity);
            if let Some((_, job)) = self.jobs.iter_mut().find(|(_, job)| is_same(job)) {
                // A redelivery held before is stale by now: a job has one delivery at a time.
                job.held = Some(delivery);
                return None;
            }
        }
        let outcome = self.unrecorded.take(&identity, now);
        Some(Admitted { key: self.insert(identity), delivery, outcome })
    }

    /// The number of jobs in flight.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Adds a delivery that is not to be held, and returns its key.
    pub(super) fn insert(&mut self, identity: Identity) -> usize {
        self.see(identity.epoch);
        self.jobs.insert(Job { identity, held: None })
    }

    /// Removes an attempt that is over. Its settlement was not recorded if its delivery was stale.
    /// Returns the held redelivery, with the outcome to settle it with, or `None` if it is to run.
    pub(super) fn finish(
        &mut self,
        key: usize,
        settlement: Settlement,
        is_stale: bool,
        now: Instant,
    ) -> Option<(D, Option<Settlement>)> {
        let Job { identity, held } = self.jobs.remove(key);
        self.others -= usize::from(identity.epoch != self.epoch);
        if let Some(held) = held {
            return Some((held, is_stale.then_some(settlement)));
        }
        if is_stale {
            self.unrecorded.remember(&identity, settlement, now);
        }
        None
    }

    /// Updates the newest epoch.
    fn see(&mut self, epoch: u64) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.others = self.jobs.iter().filter(|(_, job)| job.identity.epoch != epoch).count();
        }
    }
}

/// Outcomes that could not be recorded because their delivery was stale. The engine delivers the
/// job again, maybe after the attempt, although it has run.
#[derive(Debug, Default)]
struct Unrecorded(HashMap<(JobId, u64), (Settlement, Instant)>);

impl Unrecorded {
    /// Keeps the outcome of an attempt for its redelivery. Another pool may get the redelivery, so
    /// not every outcome is taken.
    fn remember(&mut self, identity: &Identity, settlement: Settlement, now: Instant) {
        // After any other outcome an equal delivery may be new and must run: the job was snoozed,
        // or it failed and was put back.
        if !matches!(settlement, Settlement::Complete | Settlement::Retry(_)) {
            return;
        }
        if self.0.len() >= MAX_UNRECORDED {
            self.0.clear();
        }
        self.0.insert((identity.envelope.id, identity.fingerprint()), (settlement, now));
    }

    /// Removes and returns the outcome of the attempt that this redelivers.
    fn take(&mut self, identity: &Identity, now: Instant) -> Option<Settlement> {
        if self.0.is_empty() {
            return None;
        }
        let key = (identity.envelope.id, identity.fingerprint());
        let (settlement, since) = self.0.remove(&key)?;
        (now - since < REMEMBERED).then_some(settlement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FailedReason;

    fn envelope(payload: &str) -> Arc<Envelope> {
        Arc::new(Envelope::new("mail", payload.into()))
    }

    fn identity(envelope: &Arc<Envelope>, attempt: u32, epoch: u64) -> Identity {
        Identity { envelope: Arc::clone(envelope), attempt, epoch }
    }

    fn fail() -> Settlement {
        Settlement::Fail { reason: FailedReason::Expired, error: String::new(), attempts: 1 }
    }

    #[test]
    fn a_redelivery_is_the_same_attempt_in_another_epoch() {
        let first = envelope("1");
        let other_payload = Arc::new(Envelope { payload: b"2".to_vec(), ..(*first).clone() });
        let other_name = Arc::new(Envelope { name: Some("sms".into()), ..(*first).clone() });
        let other_id = Arc::new(Envelope { id: JobId::new(), ..(*first).clone() });
        let table = [
            ("in another epoch", identity(&first, 1, 2), true),
            ("in the same epoch", identity(&first, 1, 1), false),
            ("the next attempt", identity(&first, 2, 2), false),
            ("another payload", identity(&other_payload, 1, 2), false),
            ("another job name", identity(&other_name, 1, 2), false),
            ("another id", identity(&other_id, 1, 2), false),
        ];
        for (what, other, expected) in table {
            assert_eq!(identity(&first, 1, 1).is_redelivered_as(&other), expected, "{what}");
            let mut in_flight = InFlight::default();
            let now = Instant::now();
            let running = in_flight.admit(identity(&first, 1, 1), 0, now).unwrap();
            let admitted = in_flight.admit(other, 1, now);
            assert_eq!(admitted.is_none(), expected, "{what} is held");
            let held = in_flight.finish(running.key, Settlement::Complete, true, now);
            assert_eq!(held, expected.then_some((1, Some(Settlement::Complete))), "{what}");
        }
    }

    #[test]
    fn a_held_redelivery_is_settled_with_the_outcome_or_runs() {
        let wait = Duration::from_secs(1);
        for outcome in [
            Settlement::Complete,
            Settlement::Retry(wait),
            Settlement::Snooze(wait),
            Settlement::Release,
            fail(),
        ] {
            for is_stale in [true, false] {
                let (mut in_flight, job, now) =
                    (InFlight::default(), envelope("1"), Instant::now());
                let running = in_flight.admit(identity(&job, 1, 1), 1, now).unwrap();
                assert_eq!(running.outcome, None);
                assert_eq!(in_flight.admit(identity(&job, 1, 2), 2, now), None);
                assert_eq!(
                    in_flight.admit(identity(&job, 1, 3), 3, now),
                    None,
                    "2 is stale by now"
                );
                let held = in_flight.finish(running.key, outcome.clone(), is_stale, now);
                assert_eq!(held, Some((3, is_stale.then(|| outcome.clone()))));
                // A redelivery being settled is in flight like a running job.
                let again = in_flight.insert(identity(&job, 1, 3));
                assert_eq!(in_flight.admit(identity(&job, 1, 4), 4, now), None);
                let held = in_flight.finish(again, outcome.clone(), false, now);
                assert_eq!(held, Some((4, None)));
            }
        }
    }

    #[test]
    fn jobs_of_another_epoch_are_counted_as_long_as_they_are_in_flight() {
        let (mut in_flight, now) = (InFlight::default(), Instant::now());
        let jobs = [1, 1, 2, 1, 2, 3].map(|epoch| {
            let admitted = in_flight.admit(identity(&envelope("1"), 1, epoch), 0, now);
            let expected = in_flight.jobs.iter().filter(|(_, job)| job.identity.epoch != epoch);
            assert_eq!(in_flight.others, expected.count());
            admitted.unwrap().key
        });
        assert_eq!(in_flight.others, 5);
        for key in jobs {
            in_flight.finish(key, Settlement::Complete, false, now);
        }
        assert_eq!(in_flight.others, 0);
    }

    #[test]
    fn only_complete_and_retry_are_remembered() {
        let wait = Duration::from_secs(1);
        for (settlement, is_kept) in [
            (Settlement::Complete, true),
            (Settlement::Retry(wait), true),
            (Settlement::Snooze(wait), false),
            (Settlement::Release, false),
            (fail(), false),
        ] {
            let (mut in_flight, job, now) = (InFlight::default(), envelope("1"), Instant::now());
            let mut next = |attempt, epoch, is_stale, now| {
                let identity = identity(&job, attempt, epoch);
                let Admitted { key, outcome, .. } = in_flight.admit(identity, 0, now).unwrap();
                assert_eq!(in_flight.finish(key, settlement.clone(), is_stale, now), None);
                outcome
            };
            assert_eq!(next(1, 1, true, now), None);
            assert_eq!(next(2, 2, false, now), None, "another attempt");
            assert_eq!(next(1, 2, false, now), is_kept.then(|| settlement.clone()));
            assert_eq!(next(1, 3, true, now), None, "it was recorded");
            assert_eq!(next(1, 4, false, now + REMEMBERED), None, "too late");
        }
    }
}
