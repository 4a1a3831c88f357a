use std::sync::Arc;

use super::*;
use crate::job::{Envelope, Priority};

/// A delivery of the job with this envelope.
#[derive(Debug, Clone)]
struct Fake {
    number: u32,
    job: Arc<Envelope>,
    epoch: u64,
    is_stale: bool,
    is_certain: bool,
}

impl PartialEq for Fake {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Held for Fake {
    fn is_stale(&self) -> bool {
        self.is_stale
    }
}

impl Ranked for Fake {
    fn priority(&self) -> Priority {
        self.job.priority()
    }
}

impl Entry for Fake {
    fn identity(&self) -> Identity {
        Identity::new(Arc::clone(&self.job), 1, self.epoch)
    }

    fn is_certain(&self) -> bool {
        self.is_certain
    }
}

/// A delivery of a job of its own.
fn fake(number: u32) -> Fake {
    let job = Arc::new(Envelope::new("mail", Vec::new()));
    Fake { number, job, epoch: 1, is_stale: false, is_certain: true }
}

fn open(concurrency: u16) -> Book<Fake, u32> {
    let mut book = Book::new(concurrency, false);
    book.set_open(true);
    book
}

/// The number of the delivery that runs next.
fn run(book: &mut Book<Fake, u32>) -> Option<(usize, u32)> {
    match book.next(Instant::now()) {
        Next::Run(key, delivery) => Some((key, delivery.number)),
        Next::Nothing => None,
        other => panic!("{other:?}"),
    }
}

fn start(book: &mut Book<Fake, u32>, key: usize, slot: usize, deadline: Option<Instant>) {
    book.start(key, Running { slot, deadline, run: u32::try_from(key).unwrap() });
}

#[test]
fn slots_start_one_at_a_time_but_for_plain_functions() {
    let (plain, other) = (|_: &Fake| true, |_: &Fake| false);
    let mut book = Book::<Fake, u32>::new(2, false);
    book.arrive(fake(1), 1);
    assert!(!book.may_start(other), "it is closed");
    book.set_open(true);
    assert!(book.may_start(other));
    book.add_slot();
    book.set_starting(true);
    assert!(!book.may_start(other) && book.may_start(plain), "one is starting");
    book.set_starting(false);
    assert!(book.may_start(other));
    book.add_slot();
    assert!(!book.may_start(plain), "there are two slots");
    book.remove_slot();
    assert!(book.may_start(other));
    assert_eq!(run(&mut book).map(|(_, number)| number), Some(1));
    assert!(!book.may_start(plain), "none waits");
}

#[test]
fn deliveries_start_in_their_order_and_stale_ones_never() {
    let mut book = open(1);
    book.arrive(Fake { is_stale: true, ..fake(1) }, 1);
    for number in 2..=3 {
        book.arrive(fake(number), 1);
    }
    assert_eq!(book.waiting(), 2, "the stale one is dropped");
    book.arrive(Fake { is_stale: true, ..fake(4) }, 1);
    book.arrive(fake(5), 1);
    let started: Vec<_> = std::iter::from_fn(|| run(&mut book)).map(|(_, number)| number).collect();
    assert_eq!(started, [2, 3, 5]);
    assert_eq!((book.waiting(), book.in_flight()), (0, 3));
}

#[test]
fn nothing_starts_while_it_is_uncertain_or_closed() {
    let mut book = open(1);
    book.arrive(Fake { is_certain: false, ..fake(1) }, 1);
    assert_eq!(book.next(Instant::now()), Next::Verify);
    assert_eq!(book.next(Instant::now()), Next::Nothing, "it is being asked");
    assert!(!book.may_start(|_| true));
    assert_eq!(book.first(), Some(&fake(1)));
    book.verified();
    assert_eq!(book.next(Instant::now()), Next::Verify, "it is uncertain again");
    book.verified();
    assert_eq!(book.take_waiting().len(), 1);
    book.arrive(fake(2), 1);
    book.set_open(false);
    assert_eq!(book.next(Instant::now()), Next::Nothing);
    assert_eq!(book.waiting(), 1);
}

#[test]
fn a_redelivery_waits_for_the_end_of_the_attempt() {
    let complete = || Settlement::Complete;
    for (is_stale, expected) in [(false, Some(2)), (true, None)] {
        let mut book = open(2);
        let first = fake(1);
        book.arrive(first.clone(), 1);
        let (key, _) = run(&mut book).unwrap();
        book.arrive(Fake { number: 2, epoch: 2, ..first.clone() }, 1);
        assert_eq!(run(&mut book), None, "it is held");
        let now = Instant::now();
        let again = book.settled(key, (complete(), is_stale), None, now);
        match again {
            // The outcome is certain, and the engine did not record it.
            Some((key, delivery, outcome)) => {
                assert_eq!((delivery.number, outcome, is_stale), (2, complete(), true));
                assert_eq!(book.settled(key, (complete(), false), None, now), None);
            }
            None => assert!(!is_stale),
        }
        assert_eq!(run(&mut book).map(|(_, number)| number), expected);
    }
    // One that comes later is settled by what is remembered.
    let mut book = open(2);
    let first = fake(1);
    book.arrive(first.clone(), 1);
    let (key, _) = run(&mut book).unwrap();
    assert_eq!(book.settled(key, (complete(), true), None, Instant::now()), None);
    book.arrive(Fake { number: 2, epoch: 2, ..first }, 1);
    let Next::Again(_, delivery, outcome) = book.next(Instant::now()) else { panic!() };
    assert_eq!((delivery.number, outcome), (2, complete()));
}

#[test]
fn an_attempt_is_decided_about_once() {
    let mut book = open(2);
    book.arrive(fake(1), 1);
    let (key, _) = run(&mut book).unwrap();
    assert_eq!(book.end(key, 0), None, "it has not started");
    start(&mut book, key, 7, None);
    assert_eq!(book.running().count(), 1);
    assert_eq!(book.end(key, 8), None, "it is of another slot");
    assert!(book.end(key, 7).is_some());
    assert_eq!(book.end(key, 7), None);
    assert_eq!(book.in_flight(), 1, "it is not settled");
    assert_eq!(book.settled(key, (Settlement::Complete, false), None, Instant::now()), None);
    assert_eq!(book.in_flight(), 0);
}

#[test]
fn an_attempt_is_overdue_at_its_deadline_unless_that_moves() {
    let now = Instant::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    let mut book = open(4);
    let deadlines = [None, Some(at(5)), Some(at(9)), Some(at(5))];
    for (number, deadline) in (0..).zip(deadlines) {
        book.arrive(fake(number), 1);
        let (key, _) = run(&mut book).unwrap();
        start(&mut book, key, key, deadline);
    }
    let keys = |overdue: Vec<(usize, Running<u32>)>| -> Vec<usize> {
        overdue.into_iter().map(|(key, _)| key).collect()
    };
    // That of key 3 started a second later.
    let later = |run: &u32| (*run == 3).then(|| at(6));
    for (time, expected, next) in [
        (4, vec![], Some(at(5))),
        (5, vec![1], Some(at(6))),
        (6, vec![3], Some(at(9))),
        (9, vec![2], None),
        (99, vec![], None),
    ] {
        let (overdue, wakes_at) = book.overdue(at(time), later);
        assert_eq!((keys(overdue), wakes_at), (expected, next), "after {time} s");
    }
    assert_eq!(keys(book.take_running()), [0]);
    assert_eq!(book.running().count(), 0);
}

#[test]
fn a_new_prefetch_is_told_once() {
    let mut book = open(10);
    assert_eq!(book.new_prefetch(), None);
    book.arrive(fake(1), 1);
    let (key, _) = run(&mut book).unwrap();
    let took = Some(Duration::from_millis(1));
    assert_eq!(book.settled(key, (Settlement::Complete, false), took, Instant::now()), None);
    assert_eq!(book.new_prefetch(), Some(266));
    assert_eq!(book.new_prefetch(), None);
}

#[test]
fn what_waits_at_two_looks_behind_taken_slots_is_stuck_and_handed_back() {
    let mut book = open(1);
    let run_all = |book: &mut Book<Fake, u32>| while run(book).is_some() {};
    book.arrive(fake(1), 1);
    book.add_slot();
    run_all(&mut book);
    assert!(!book.look_if_stuck() && !book.look_if_stuck(), "none waits");
    book.arrive(fake(2), 1);
    assert!(!book.look_if_stuck(), "it has just come");
    run_all(&mut book);
    book.arrive(fake(3), 1);
    assert!(!book.look_if_stuck(), "another one waits");
    book.arrive(fake(4), 1);
    assert!(book.look_if_stuck() && book.look_if_stuck());
    assert_eq!(book.hand_back(), 2);
    assert_eq!((book.new_prefetch(), book.new_prefetch()), (Some(0), None));
    assert_eq!(book.take_waiting().len(), 2);
    assert!(!book.look_if_stuck());
    book.remove_slot();
    assert_eq!(book.new_prefetch(), Some(1));
    book.arrive(fake(5), 1);
    assert!(!book.look_if_stuck() && !book.look_if_stuck(), "a slot is free");
    assert_eq!((book.hand_back(), book.new_prefetch()), (0, None));
}

#[test]
fn nothing_is_taken_while_there_are_more_slots_than_wanted() {
    let mut book = open(4);
    (0..4).for_each(|_| book.add_slot());
    book.set_concurrency(2);
    assert_eq!(book.new_prefetch(), Some(0));
    book.remove_slot();
    book.remove_slot();
    assert_eq!((book.new_prefetch(), book.may_start(|_| true)), (None, false), "two run");
    book.remove_slot();
    assert_eq!(book.new_prefetch(), Some(2));
    book.arrive(fake(1), 1);
    assert!(book.may_start(|_| true));

    // Slots that are added are filled at once, also after jobs were handed back.
    book.add_slot();
    book.set_concurrency(1);
    assert_eq!(book.new_prefetch(), Some(0));
    book.set_concurrency(3);
    assert_eq!(book.new_prefetch(), Some(3));
}
