//! The jobs of one queue that are in flight, and their redeliveries. Pure.
//!
//! A job that is delivered again while it is in flight does not run twice at once: the redelivery
//! is held until the attempt is over. If the outcome of the attempt could not be recorded, the
//! redelivery is settled with it, whether it was held or comes later. Equal jobs of two epochs that
//! are both alive cannot be told from redeliveries, so they run one after the other.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use slab::Slab;
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::engine::{Delivery, Settlement};
use crate::job::{Envelope, JobId};

/// The most unrecorded outcomes that are kept.
const MAX_UNRECORDED: usize = 10_000;
/// How long an unrecorded outcome is kept: a later delivery may be the retry of a failed job.
pub(super) const REMEMBERED: Duration = Duration::from_secs(600);

/// Identifies the redeliveries of one attempt. The id alone does not: several jobs may have the
/// same.
#[derive(Debug)]
pub(super) struct Identity {
    envelope: Arc<Envelope>,
    attempt: u32,
    enqueued_at: Option<SystemTime>,
    /// Two unsettled deliveries of one connection epoch are never one job.
    epoch: u64,
}

impl Identity {
    pub(super) fn of(delivery: &Delivery) -> Self {
        Self {
            envelope: delivery.shared_envelope(),
            attempt: delivery.attempt,
            enqueued_at: delivery.enqueued_at(),
            epoch: delivery.epoch(),
        }
    }

    /// The identity of a delivery of this job.
    #[cfg(test)]
    pub(super) fn new(envelope: Arc<Envelope>, attempt: u32, epoch: u64) -> Self {
        let enqueued_at = Some(envelope.enqueued_at);
        Self { envelope, attempt, enqueued_at, epoch }
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
        let Envelope { name, payload, headers, .. } = &*self.envelope;
        (self.attempt, name, payload, self.enqueued_at, headers)
    }
}

/// A delivery, as far as it matters here.
pub(super) trait Held {
    /// Whether it is known to be stale.
    fn is_stale(&self) -> bool;
}

impl Held for Delivery {
    fn is_stale(&self) -> bool {
        Self::is_stale(self)
    }
}

/// The jobs of one queue that are in flight; `D` is a delivery.
#[derive(Debug)]
pub(super) struct InFlight<D> {
    jobs: Slab<Job<D>>,
    /// The keys of the jobs by id. Several jobs may have the same one.
    by_id: HashMap<JobId, SmallVec<[usize; 1]>>,
    unrecorded: Unrecorded,
}

#[derive(Debug)]
struct Job<D> {
    identity: Identity,
    /// Its redeliveries, and equal jobs of other epochs.
    held: Vec<D>,
}

/// A delivery that is now in flight.
#[derive(Debug, PartialEq)]
pub(super) struct Admitted<D> {
    pub(super) key: usize,
    pub(super) delivery: D,
    /// The outcome of an earlier delivery. `None` if the job is to run.
    pub(super) outcome: Option<Settlement>,
}

/// What was held until the end of an attempt.
#[derive(Debug, PartialEq)]
pub(super) struct Freed<D> {
    /// The redelivery to settle with the outcome of the attempt, which could not be recorded.
    pub(super) again: Option<(D, Settlement)>,
    /// The deliveries to admit now, in their order.
    pub(super) waiting: Vec<D>,
}

impl<D> Default for InFlight<D> {
    fn default() -> Self {
        Self { jobs: Slab::new(), by_id: HashMap::new(), unrecorded: Unrecorded::default() }
    }
}

impl<D: Held> InFlight<D> {
    /// Admits a delivery. `None` if it is held because its attempt is running.
    pub(super) fn admit(
        &mut self,
        identity: Identity,
        delivery: D,
        now: Instant,
    ) -> Option<Admitted<D>> {
        let keys = self.by_id.get(&identity.envelope.id).into_iter().flatten();
        let is_same = |key: &&usize| self.jobs[**key].identity.is_redelivered_as(&identity);
        if let Some(key) = { keys }.find(is_same).copied() {
            let held = &mut self.jobs[key].held;
            // A long attempt may be delivered again at each lost connection.
            held.retain(|held| !held.is_stale());
            held.push(delivery);
            return None;
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
        let id = identity.envelope.id;
        let key = self.jobs.insert(Job { identity, held: Vec::new() });
        self.by_id.entry(id).or_default().push(key);
        key
    }

    /// Removes an attempt that is over. Its settlement was not recorded if its delivery was stale.
    pub(super) fn finish(
        &mut self,
        key: usize,
        settlement: Settlement,
        is_stale: bool,
        now: Instant,
    ) -> Freed<D> {
        let Job { identity, held: mut waiting } = self.jobs.remove(key);
        if let Entry::Occupied(mut keys) = self.by_id.entry(identity.envelope.id) {
            keys.get_mut().retain(|other| *other != key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        let mut again = None;
        if is_stale {
            match waiting.pop() {
                Some(newest) => again = Some((newest, settlement)),
                None => self.unrecorded.remember(&identity, settlement, now),
            }
        }
        Freed { again, waiting }
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
        // or it failed and the failed job was retried.
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
        Identity::new(Arc::clone(envelope), attempt, epoch)
    }

    fn fail() -> Settlement {
        Settlement::Fail { reason: FailedReason::Expired, error: String::new(), attempts: 1 }
    }

    /// A delivery with its number.
    #[derive(Debug, PartialEq)]
    struct Fake(u32, bool);

    impl Held for Fake {
        fn is_stale(&self) -> bool {
            self.1
        }
    }

    fn fresh(number: u32) -> Fake {
        Fake(number, false)
    }

    #[test]
    fn a_redelivery_is_the_same_attempt_in_another_epoch() {
        let first = envelope("1");
        let other_payload = Arc::new(Envelope { payload: b"2".to_vec(), ..(*first).clone() });
        let other_name = Arc::new(Envelope { name: Some("sms".into()), ..(*first).clone() });
        let enqueued_at = first.enqueued_at + Duration::from_secs(1);
        let later = Arc::new(Envelope { enqueued_at, ..(*first).clone() });
        let other_id = Arc::new(Envelope { id: JobId::new(), ..(*first).clone() });
        let table = [
            ("in another epoch", identity(&first, 1, 2), true),
            ("in the same epoch", identity(&first, 1, 1), false),
            ("the next attempt", identity(&first, 2, 2), false),
            ("another payload", identity(&other_payload, 1, 2), false),
            ("another job name", identity(&other_name, 1, 2), false),
            ("another id", identity(&other_id, 1, 2), false),
            ("enqueued later", identity(&later, 1, 2), false),
        ];
        for (what, other, expected) in table {
            assert_eq!(identity(&first, 1, 1).is_redelivered_as(&other), expected, "{what}");
            let mut in_flight = InFlight::default();
            let now = Instant::now();
            let running = in_flight.admit(identity(&first, 1, 1), fresh(0), now).unwrap();
            let admitted = in_flight.admit(other, fresh(1), now);
            assert_eq!(admitted.is_none(), expected, "{what} is held");
            let freed = in_flight.finish(running.key, Settlement::Complete, true, now);
            let again = expected.then_some((fresh(1), Settlement::Complete));
            assert_eq!(freed, Freed { again, waiting: vec![] }, "{what}");
        }
    }

    #[test]
    fn a_redelivery_without_a_time_of_enqueueing_is_held() {
        let undated = |envelope: &Arc<Envelope>, epoch| Identity {
            enqueued_at: None,
            ..identity(envelope, 1, epoch)
        };
        let first = envelope("1");
        let enqueued_at = first.enqueued_at + Duration::from_secs(1);
        let again = Arc::new(Envelope { enqueued_at, ..(*first).clone() });
        assert!(undated(&first, 1).is_redelivered_as(&undated(&again, 2)));
        let (first, again) = (undated(&first, 1), undated(&again, 2));
        assert_eq!(first.fingerprint(), again.fingerprint());
    }

    #[test]
    fn what_was_held_is_settled_with_the_outcome_or_runs() {
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
                let running = in_flight.admit(identity(&job, 1, 1), fresh(1), now).unwrap();
                assert_eq!(running.outcome, None);
                for (epoch, delivery) in [(2, Fake(2, true)), (3, fresh(3)), (4, fresh(4))] {
                    assert_eq!(in_flight.admit(identity(&job, 1, epoch), delivery, now), None);
                }
                let freed = in_flight.finish(running.key, outcome.clone(), is_stale, now);
                // The one of epoch 2 was dropped.
                let expected = if is_stale {
                    Freed { again: Some((fresh(4), outcome.clone())), waiting: vec![fresh(3)] }
                } else {
                    Freed { again: None, waiting: vec![fresh(3), fresh(4)] }
                };
                assert_eq!(freed, expected);
                // A redelivery being settled is in flight like a running job.
                let again = in_flight.insert(identity(&job, 1, 4));
                assert_eq!(in_flight.admit(identity(&job, 1, 5), fresh(5), now), None);
                let freed = in_flight.finish(again, outcome.clone(), false, now);
                assert_eq!(freed, Freed { again: None, waiting: vec![fresh(5)] });
                assert!(in_flight.len() == 0 && in_flight.by_id.is_empty());
            }
        }
    }

    #[test]
    fn equal_jobs_of_one_epoch_run_side_by_side() {
        let (mut in_flight, job, now) = (InFlight::default(), envelope("1"), Instant::now());
        let mut admit =
            |epoch, number| in_flight.admit(identity(&job, 1, epoch), fresh(number), now);
        let keys = [admit(1, 1), admit(1, 2)].map(|admitted| admitted.unwrap().key);
        assert_eq!(admit(2, 3), None, "a redelivery of either");
        let freed = keys.map(|key| in_flight.finish(key, Settlement::Complete, false, now).waiting);
        assert_eq!(freed, [vec![fresh(3)], vec![]]);
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
                let Admitted { key, outcome, .. } =
                    in_flight.admit(identity, fresh(0), now).unwrap();
                let freed = in_flight.finish(key, settlement.clone(), is_stale, now);
                assert_eq!(freed, Freed { again: None, waiting: vec![] });
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
