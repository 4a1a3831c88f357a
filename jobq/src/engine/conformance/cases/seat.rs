//! Seats: one holder of each queue, and a value that outlives it.

use std::time::Duration;

use crate::engine::conformance::bench::{Bench, ids, job, soon};
use crate::engine::{Engine, MAX_CHANGE, MAX_LIST, QueueSpec, Seat, SeatValue, Seats};
use crate::error::ErrorKind;
use crate::job::{Envelope, MAX_PAYLOAD};

fn seats(engine: &dyn Engine) -> &dyn Seats {
    engine.seats().expect("the engine has seats")
}

/// Takes the seat of a queue.
async fn take(engine: &dyn Engine, queue: &str) -> Box<dyn Seat> {
    soon("a seat", seats(engine).take(queue)).await.expect("takes")
}

/// Takes the seat of the queue `mail`, which it declares.
async fn declared(bench: &Bench) -> Box<dyn Seat> {
    bench.declare("mail", &[]).await;
    take(bench.engine(), "mail").await
}

async fn change(engine: &dyn Engine, change: &str) {
    let changing = seats(engine).change("mail", change.into());
    soon("a change", changing).await.expect("changes");
}

/// The next changes must be these.
async fn has_changes(seat: &mut dyn Seat, expected: &[&str]) {
    for expected in expected {
        let change = soon("a change", seat.next_change()).await.expect("holds");
        assert_eq!(String::from_utf8_lossy(&change), *expected);
    }
}

async fn has_no_change(seat: &mut dyn Seat) {
    let early = tokio::time::timeout(Duration::from_millis(300), seat.next_change()).await;
    assert!(early.is_err(), "{early:?}");
}

async fn write_list(seat: &mut dyn Seat, list: &str) {
    soon("a list", seat.write_list(list.into())).await.expect("writes");
}

/// Enqueues jobs, and writes a position.
async fn advance(seat: &mut dyn Seat, jobs: Vec<Envelope>, position: &str) {
    let advancing = seat.advance(jobs, position.into());
    let refused = soon("a position", advancing).await.expect("writes");
    assert!(refused.is_empty(), "{refused:?}");
}

fn value(list: &str, position: &str) -> SeatValue {
    SeatValue { list: list.into(), position: position.into() }
}

/// A wait for a seat that is held ends when its holder leaves it, or drops it.
pub async fn a_seat_has_one_holder(bench: &Bench) {
    let first = declared(bench).await;
    assert_eq!(*first.value(), SeatValue::default());
    let mut second = seats(bench.engine()).take("mail");
    let early = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
    assert!(early.is_err(), "{early:?}");
    soon("a seat to be left", first.leave()).await;
    let second = soon("a seat that was left", second).await.expect("takes");
    drop(second);
    take(bench.engine(), "mail").await;
}

/// A wait for a seat that is dropped gets no seat.
pub async fn a_wait_for_a_seat_can_be_dropped(bench: &Bench) {
    let first = declared(bench).await;
    let mut second = seats(bench.engine()).take("mail");
    let early = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
    assert!(early.is_err(), "{early:?}");
    drop(second);
    soon("a seat to be left", first.leave()).await;
    let third = take(bench.engine(), "mail").await;
    soon("a seat to be left", third.leave()).await;
}

/// The seat of one queue is not that of another.
pub async fn each_queue_has_a_seat(bench: &Bench) {
    let mut first = declared(bench).await;
    bench.declare("mail.eu", &[]).await;
    let mut second = take(bench.engine(), "mail.eu").await;
    change(bench.engine(), "of mail").await;
    write_list(&mut *second, "of mail.eu").await;
    has_changes(&mut *first, &["of mail"]).await;
    has_no_change(&mut *second).await;
}

/// A queue has a seat when somebody has taken it, or stored a change for it.
pub async fn a_seat_is_there_when_it_is_used(bench: &Bench) {
    let exists = async |queue: &str| {
        soon("an answer", seats(bench.engine()).exists(queue)).await.expect("answers")
    };
    bench.declare("mail", &[]).await;
    bench.declare("mail.eu", &[]).await;
    assert_eq!((exists("mail").await, exists("mail.eu").await), (false, false));
    change(bench.engine(), "a").await;
    assert_eq!((exists("mail").await, exists("mail.eu").await), (true, false));
    let seat = take(bench.engine(), "mail.eu").await;
    soon("a seat to be left", seat.leave()).await;
    assert!(exists("mail.eu").await);
    assert!(!exists("nobody").await);
}

/// The next holder has what the last one wrote.
pub async fn a_value_outlives_its_holder(bench: &Bench) {
    let mut seat = declared(bench).await;
    for round in 0..3 {
        write_list(&mut *seat, &format!("list {round}")).await;
        for step in 0..3 {
            advance(&mut *seat, vec![], &format!("position {round}.{step}")).await;
        }
        soon("a seat to be left", seat.leave()).await;
        seat = take(bench.engine(), "mail").await;
        assert_eq!(*seat.value(), value(&format!("list {round}"), &format!("position {round}.2")));
    }
}

/// Changes come in the order in which they were stored, also those stored while nobody held the seat.
/// They come again until a list was written that has them.
pub async fn changes_come_until_they_are_in_the_list(bench: &Bench) {
    bench.declare("mail", &[]).await;
    change(bench.engine(), "a").await;
    change(bench.engine(), "b").await;
    let mut seat = take(bench.engine(), "mail").await;
    has_changes(&mut *seat, &["a", "b"]).await;
    change(bench.engine(), "c").await;
    has_changes(&mut *seat, &["c"]).await;
    has_no_change(&mut *seat).await;
    drop(seat);

    let mut seat = take(bench.engine(), "mail").await;
    has_changes(&mut *seat, &["a", "b"]).await;
    write_list(&mut *seat, "a b").await;
    soon("a seat to be left", seat.leave()).await;

    let mut seat = take(bench.engine(), "mail").await;
    assert_eq!(*seat.value(), value("a b", ""));
    has_changes(&mut *seat, &["c"]).await;
    write_list(&mut *seat, "a b c").await;
    has_no_change(&mut *seat).await;
    drop(seat);
    has_no_change(&mut *take(bench.engine(), "mail").await).await;
}

/// Many changes that are in the list do not come again to the next holder.
pub async fn many_changes_are_in_the_list(bench: &Bench) {
    let mut seat = declared(bench).await;
    for number in 0..200 {
        change(bench.engine(), &number.to_string()).await;
    }
    for number in 0..200 {
        has_changes(&mut *seat, &[&number.to_string()]).await;
    }
    write_list(&mut *seat, "all").await;
    soon("a seat to be left", seat.leave()).await;
    let mut seat = take(bench.engine(), "mail").await;
    assert_eq!(*seat.value(), value("all", ""));
    has_no_change(&mut *seat).await;
}

/// A seat ends with its queue, and is a new one when the queue is declared again.
pub async fn a_seat_ends_with_its_queue(bench: &Bench) {
    let mut seat = declared(bench).await;
    write_list(&mut *seat, "old").await;
    change(bench.engine(), "old").await;
    has_changes(&mut *seat, &["old"]).await;
    bench.delete(&QueueSpec::new("mail"), true).await.expect("deletes");
    assert!(soon("an end", seat.next_change()).await.is_err());
    assert!(soon("an end", seat.write_list(b"late".to_vec())).await.is_err());
    let gone = soon("an error", seats(bench.engine()).take("mail")).await;
    assert!(gone.is_err_and(|error| error.is_not_found()));
    let gone = soon("an error", seats(bench.engine()).change("mail", b"a".to_vec())).await;
    assert!(gone.is_err_and(|error| error.is_not_found()));
    drop(seat);
    let mut seat = declared(bench).await;
    assert_eq!(*seat.value(), SeatValue::default());
    has_no_change(&mut *seat).await;
}

/// The jobs of a step come as they were given, in their order.
pub async fn a_step_enqueues_jobs(bench: &Bench) {
    let mut seat = declared(bench).await;
    let mut consumer = bench.consumer("mail", 10).await;
    let jobs = [bench.full_job(), job("mail"), job("mail")];
    advance(&mut *seat, jobs.to_vec(), "1").await;
    let taken = consumer.take_many(3).await;
    assert_eq!(ids(&taken), jobs.each_ref().map(|job| job.id));
    assert_eq!(taken[0].envelope().headers, jobs[0].headers);
    assert_eq!(taken[0].envelope().expires_at, jobs[0].expires_at);
}

/// A job that is refused is named, and ends neither the seat nor the other jobs.
pub async fn a_job_that_is_refused_ends_no_seat(bench: &Bench) {
    let mut seat = declared(bench).await;
    let mut consumer = bench.consumer("mail", 10).await;
    let large = Envelope { payload: vec![b'x'; MAX_PAYLOAD + 1], ..job("mail") };
    let stranger = job("no.such.queue");
    let jobs = vec![job("mail"), large, stranger, job("mail")];
    let good = [jobs[0].id, jobs[3].id];
    let advancing = seat.advance(jobs, b"1".to_vec());
    let refused = soon("a position", advancing).await.expect("writes");
    // Some engines leave the check of the size to the client, others have no error for a stranger.
    let places: Vec<_> = refused.iter().map(|(place, _)| *place).collect();
    assert!(matches!(places[..], [1 | 2] | [1, 2]), "{refused:?}");
    let mut taken = ids(&consumer.take_many(if places[0] == 1 { 2 } else { 3 }).await);
    taken.retain(|id| good.contains(id));
    assert_eq!(taken, good);
    advance(&mut *seat, vec![], "2").await;
    drop(seat);
    assert_eq!(*take(bench.engine(), "mail").await.value(), value("", "2"));
}

/// Bad input is an error, and changes nothing.
pub async fn what_no_seat_takes_is_an_error(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let seats = seats(bench.engine());
    let large = soon("a change", seats.change("mail", vec![0; MAX_CHANGE + 1])).await;
    assert!(large.is_err_and(|error| error.is_invalid()));
    let unknown = soon("a change", seats.change("no.such.queue", b"a".to_vec())).await;
    assert!(unknown.is_err_and(|error| error.is_not_found()));
    let unknown = soon("a seat", seats.take("no.such.queue")).await;
    assert!(unknown.is_err_and(|error| error.is_not_found()));
    let mut seat = take(bench.engine(), "mail").await;
    has_no_change(&mut *seat).await;
    let list = soon("a list", seat.write_list(vec![0; MAX_LIST + 1])).await;
    assert!(list.is_err_and(|error| error.is_invalid()));
    let position = soon("a position", seat.advance(vec![], vec![0; MAX_CHANGE + 1])).await;
    assert!(position.is_err_and(|error| error.is_invalid()));
    // Neither ends the seat, and the largest ones are taken.
    soon("a list", seat.write_list(vec![b'x'; MAX_LIST])).await.expect("writes");
    let refused = soon("a position", seat.advance(vec![], vec![b'x'; MAX_CHANGE])).await;
    assert!(refused.expect("writes").is_empty());
}

/// A seat of an engine that is closed has ended, and another engine takes it.
pub async fn a_closed_engine_leaves_its_seats(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let other = bench.another().await;
    let mut first = take(&*other, "mail").await;
    write_list(&mut *first, "first").await;
    let mut next = seats(bench.engine()).take("mail");
    let early = tokio::time::timeout(Duration::from_millis(300), &mut next).await;
    assert!(early.is_err(), "{early:?}");
    soon("an engine to close", other.close()).await;
    let next = soon("the seat of a closed engine", next).await.expect("takes");
    assert_eq!(*next.value(), value("first", ""));
    assert!(soon("an end", first.next_change()).await.is_err());
    assert!(soon("an end", first.write_list(b"late".to_vec())).await.is_err());
    assert!(soon("an end", first.advance(vec![job("mail")], b"late".to_vec())).await.is_err());
    let taking = soon("an error", seats(&*other).take("mail")).await;
    assert_eq!(taking.expect_err("it is closed").kind(), ErrorKind::Closed);
    soon("a seat to be left", next.leave()).await;
    assert_eq!(*take(bench.engine(), "mail").await.value(), value("first", ""));
    bench.counts("mail", 0, 0, 0).await;
}

/// Engines follow one another, and each change is seen by one of them.
pub async fn engines_take_turns_at_a_seat(bench: &Bench) {
    bench.declare("mail", &[]).await;
    let other = bench.another().await;
    for round in 0..4_u32 {
        let (holder, changer) = match round % 2 {
            0 => (bench.engine(), &*other),
            _ => (&*other, bench.engine()),
        };
        let mut seat = take(holder, "mail").await;
        let before = round.checked_sub(1).map(|round| round.to_string()).unwrap_or_default();
        assert_eq!(*seat.value(), value(&before, &before));
        change(changer, "next").await;
        has_changes(&mut *seat, &["next"]).await;
        write_list(&mut *seat, &round.to_string()).await;
        advance(&mut *seat, vec![job("mail")], &round.to_string()).await;
        soon("a seat to be left", seat.leave()).await;
    }
    let mut consumer = bench.consumer("mail", 10).await;
    let _taken = consumer.take_many(4).await;
    consumer.gets_nothing().await;
}
