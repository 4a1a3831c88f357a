use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::*;
use crate::engine::Receipt;
use crate::error::Result;
use crate::job::{BoxError, Envelope, Job, JobId};
use crate::worker::registry::Registered;

#[derive(serde::Serialize, serde::Deserialize)]
struct Mail;

impl Job for Mail {
    const NAME: &'static str = "mail";
}

async fn mail(_: Mail) -> std::result::Result<(), BoxError> {
    Ok(())
}

/// A delivery of a life that may end.
#[derive(Debug)]
struct Slip {
    envelope: Arc<Envelope>,
    life: u64,
    is_stale: Arc<AtomicBool>,
}

#[async_trait]
impl Receipt for Slip {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    async fn settle(self: Box<Self>, _: u32, _: Settlement) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::SeqCst)
    }

    fn epoch(&self) -> u64 {
        self.life
    }
}

/// A job that can be delivered several times.
#[derive(Clone)]
struct Sent {
    id: JobId,
    payload: &'static str,
    is_stale: Arc<AtomicBool>,
}

impl Sent {
    fn new(payload: &'static str) -> Self {
        Self { id: JobId::new(), payload, is_stale: Arc::default() }
    }

    fn in_life(&self, life: u64) -> Delivery {
        let envelope = Envelope {
            id: self.id,
            name: Some("mail".into()),
            enqueued_at: std::time::SystemTime::UNIX_EPOCH,
            ..Envelope::new("mail", self.payload.into())
        };
        let is_stale = Arc::clone(&self.is_stale);
        Delivery::new(1, Box::new(Slip { envelope: Arc::new(envelope), life, is_stale }))
    }
}

fn running(delivery: Delivery, limit: Option<Duration>) -> Running {
    let (job, started) = (Arc::new(Registered::of_function(mail)), Instant::now());
    let who = Who::of(&delivery, "mail".into(), "mail");
    Running { who, job, delivery, started, limit, cancelled: None, held: None }
}

fn state(most: usize) -> State {
    State::new(most, 1)
}

/// Gives it a slot and runs it there.
fn run(state: &mut State, delivery: Delivery) -> Place {
    state.add(delivery);
    let (place, delivery) = state.place().unwrap();
    assert!(state.run(place, running(delivery, None)));
    place
}

/// Its run has ended, and was settled unless it is said to be stale.
fn end(state: &mut State, place: Place, settlement: Settlement, is_stale: bool) {
    let (running, _) = state.ended(place).unwrap();
    let lost = is_stale.then(|| likeness(&running.delivery));
    let held = state.leave(place);
    state.conclude(Finished { id: running.who.id, settlement, stale: lost, held });
}

fn id(delivery: Option<Delivery>) -> Option<JobId> {
    delivery.map(|delivery| delivery.envelope().id)
}

#[test]
fn what_finds_no_slot_waits_and_the_slot_that_is_free_goes_on_with_it() {
    let mut state = state(2);
    let jobs: [Sent; 4] = std::array::from_fn(|_| Sent::new("1"));
    let places = [run(&mut state, jobs[0].in_life(1)), run(&mut state, jobs[1].in_life(1))];
    for job in &jobs[2..] {
        state.add(job.in_life(1));
        assert!(state.place().is_none(), "all slots are taken");
    }
    end(&mut state, places[1], Settlement::Complete, false);
    assert_eq!(id(state.go_on(places[1])), Some(jobs[2].id), "in their order");
    end(&mut state, places[0], Settlement::Complete, false);
    assert_eq!(id(state.go_on(places[0])), Some(jobs[3].id));
    assert!(state.go_on(places[0]).is_none() && state.go_on(places[1]).is_none());
    assert!(state.is_idle());
}

/// Those that have begun may be through with what waits before more have.
#[test]
fn slots_begin_a_few_at_first_and_then_more() {
    let mut state = state(9);
    let job = Sent::new("1");
    (0..20).for_each(|_| state.add(job.in_life(1)));
    let mut all = Vec::new();
    for expected in [1, 1, 2, 4, 1] {
        let placed: Vec<_> = std::iter::from_fn(|| state.place()).collect();
        assert_eq!(placed.len(), expected);
        assert!(!state.tells_news());
        for (place, delivery) in placed {
            assert!(state.run(place, running(delivery, None)));
            all.push(place);
        }
        assert_eq!(state.tells_news(), all.len() < 9, "what waits has slots");
        state.take_news();
    }
    // One whose task is dropped before it begins is not waited for.
    end(&mut state, all[0], Settlement::Complete, false);
    state.take_waiting();
    assert!(state.go_on(all[0]).is_none());
    state.add(job.in_life(1));
    let (place, _) = state.place().unwrap();
    assert!(matches!(state.gone(place), Gone::Over));
    state.add(job.in_life(1));
    assert!(state.place().is_some());
}

#[test]
fn nothing_starts_while_it_is_closed_and_the_last_one_to_end_is_told() {
    let mut state = state(1);
    let place = run(&mut state, Sent::new("1").in_life(1));
    state.add(Sent::new("2").in_life(1));
    state.set_open(false);
    end(&mut state, place, Settlement::Complete, false);
    state.take_news();
    assert!(state.go_on(place).is_none() && state.is_idle());
    assert!(state.tells_news() && !state.tells_news(), "once");
    assert_eq!(state.take_waiting().len(), 1);
}

#[test]
fn what_became_stale_while_it_waited_does_not_run() {
    let mut state = state(1);
    let (gone, other) = (Sent::new("1"), Sent::new("2"));
    let place = run(&mut state, Sent::new("0").in_life(1));
    (0..3).for_each(|_| state.add(gone.in_life(1)));
    gone.is_stale.store(true, Ordering::SeqCst);
    assert_eq!(state.waiting.len(), 3);
    state.add(other.in_life(2));
    assert_eq!(state.waiting.len(), 1, "they do not add up");
    state.add(gone.in_life(1));
    end(&mut state, place, Settlement::Complete, false);
    assert_eq!(id(state.go_on(place)), Some(other.id));
    assert!(state.go_on(place).is_none());
}

/// The same job in another life is not run beside itself, and afterwards only if its run was
/// not its own.
#[test]
fn the_same_job_is_held_until_its_run_is_over() {
    let table = [
        // (Who comes, whether the run was settled in vain, whether the other one runs later)
        (true, true, false),
        (true, false, true),
        (false, true, true),
        (false, false, true),
    ];
    for (is_same, is_stale, runs_later) in table {
        let mut state = state(2);
        let first = Sent::new("1");
        let other = if is_same { first.clone() } else { Sent { payload: "2", ..first.clone() } };
        let place = run(&mut state, first.in_life(1));
        if is_same {
            state.add(other.in_life(2));
            assert!(state.place().is_none(), "it is held, though a slot is free");
            end(&mut state, place, Settlement::Complete, is_stale);
        } else {
            // It comes in the moment in which only the id of the first one is known.
            let (running, _) = state.ended(place).unwrap();
            state.add(other.in_life(2));
            assert!(state.place().is_none());
            let lost = is_stale.then(|| likeness(&running.delivery));
            let held = state.leave(place);
            let settlement = Settlement::Complete;
            state.conclude(Finished { id: running.who.id, settlement, stale: lost, held });
        }
        assert_eq!(state.go_on(place).is_some(), runs_later, "{is_same} {is_stale}");
        let (news, _) = state.take_news();
        assert_eq!(news.unsettled.len(), usize::from(!runs_later), "settled like the run");
    }
}

#[test]
fn an_outcome_that_was_not_recorded_settles_the_job_when_it_comes_again() {
    let mut state = state(1);
    let job = Sent::new("1");
    let place = run(&mut state, job.in_life(1));
    end(&mut state, place, Settlement::Complete, true);
    assert!(state.go_on(place).is_none());
    state.add(job.in_life(2));
    assert!(state.place().is_none() && !state.is_idle());
    let (News { mut unsettled, .. }, _) = state.take_news();
    let Unsettled { place, settlement, who, .. } = unsettled.pop().unwrap();
    assert_eq!((&settlement, who.is_none()), (&Settlement::Complete, true));
    let finished = state.settled(place, settlement, false);
    assert!(finished.stale.is_none() && state.is_idle());
    state.add(job.in_life(3));
    assert!(state.place().is_some(), "it was put back since");
}

#[test]
fn what_is_being_settled_is_still_in_hand() {
    let mut state = state(1);
    let (job, wait) = (Sent::new("1"), Duration::from_secs(1));
    let place = run(&mut state, job.in_life(1));
    let (Running { who, delivery, .. }, _) = state.ended(place).unwrap();
    let (like, held) = (likeness(&delivery), state.leave(place));
    state.settle(Some(who), delivery, Settlement::Retry(wait), like, held);
    state.add(job.in_life(2));
    assert!(state.go_on(place).is_none(), "it is held");
    let (News { unsettled, .. }, _) = state.take_news();
    let finished = state.settled(unsettled[0].place, Settlement::Retry(wait), true);
    assert!(finished.held.is_some() && finished.stale == Some(like));
}

#[test]
fn what_is_left_before_it_ends_is_being_settled_at_once() {
    let (mut state, job) = (state(2), Sent::new("1"));
    run(&mut state, job.in_life(1));
    let [Abandoned { settling, .. }] = state.abandon_all()[..] else {
        panic!("one attempt");
    };
    state.add(job.in_life(2));
    assert!(state.place().is_none() && !state.is_idle(), "it is held, though a slot is free");
    let finished = state.settled(settling, Settlement::Release, true);
    assert!(finished.held.is_some() && state.is_idle());
}

#[test]
fn timeouts_are_looked_at_when_the_first_is_up() {
    let mut state = state(3);
    let limits = [Some(30), None, Some(10)].map(|limit| limit.map(Duration::from_secs));
    let mut alarms = Vec::new();
    let places = limits.map(|limit| {
        state.add(Sent::new("1").in_life(1));
        let (place, delivery) = state.place().unwrap();
        assert!(state.run(place, running(delivery, limit)));
        alarms.push((state.tells_news(), state.take_news().1.is_some()));
        place
    });
    assert_eq!(alarms, [(true, true), (false, true), (true, true)], "told where it is sooner");
    let now = Instant::now();
    let (expired, next) = state.expire(now);
    assert!(expired.is_empty() && next.is_some_and(|next| next < now + Duration::from_secs(11)));
    let (expired, next) = state.expire(now + Duration::from_secs(11));
    let expired: Vec<_> = expired.iter().map(|one| one.place.index).collect();
    assert_eq!((expired, next.is_some()), (vec![places[2].index], true));
    end(&mut state, places[0], Settlement::Complete, false);
    assert!(state.expire(now + Duration::from_secs(99)).1.is_none(), "it has ended in time");
}

#[tokio::test]
async fn a_function_that_goes_on_keeps_its_slot_until_it_ends() {
    let mut state = state(1);
    let place = run(&mut state, Sent::new("1").in_life(1));
    let task = || tokio::spawn(std::future::pending());
    assert!(state.launched(place, 2, task()).is_none());
    assert!(state.launched(place, 1, task()).is_none(), "an older one, which is over");
    let [Abandoned { running, task: Some(task), settling, .. }] = &state.abandon_all()[..] else {
        panic!("one function with its task");
    };
    assert!(state.launched(place, 3, tokio::spawn(async {})).is_some(), "to be aborted");
    let _ = running.cancel(None);
    task.abort();
    state.settled(*settling, Settlement::Release, false);
    assert!(state.is_idle(), "its attempt is over");
    state.add(Sent::new("2").in_life(1));
    assert!(state.place().is_none() && state.ended(place).is_none());
    assert!(state.overdue(place, &running.who));
    assert!(matches!(state.gone(place), Gone::Lost(_)));
    assert!(state.tells_news(), "somebody waits for the slot");
    let (next, _) = state.place().unwrap();
    assert!(!state.overdue(place, &running.who), "another one has its place");
    assert!(matches!(state.gone(next), Gone::Over));
    let place = run(&mut state, Sent::new("3").in_life(1));
    assert!(matches!(state.gone(place), Gone::Running(_)), "its task was dropped");
    assert!(state.is_idle() && !state.lives.has_other(2));
}
