use std::collections::BTreeSet;

use super::*;
use crate::job::from_millis;

fn at(seconds: u64) -> SystemTime {
    from_millis(seconds * 1_000)
}

fn every(seconds: u64) -> Schedule {
    Schedule::every(Duration::from_secs(seconds)).unwrap()
}

fn deadlines(times: &[Schedule]) -> Deadlines {
    Deadlines::new("mail", "report", times.to_vec(), Duration::ZERO).unwrap()
}

/// The seconds at which jobs are due, each with the number of missed deadlines that it stands for.
fn fires(
    deadlines: &Deadlines,
    from: u64,
    now: u64,
    missed: Missed,
    late: Duration,
) -> Vec<(u64, usize)> {
    let fires = deadlines.fires((at(from), at(now)), missed, late);
    fires.jobs.into_iter().map(|fire| (to_millis(fire.due) / 1_000, fire.missed)).collect()
}

#[test]
fn late_deadlines_are_made_up_for_and_missed_ones_are_treated() {
    use Missed::{All, One, Skip};
    let minutely = deadlines(&[every(60)]);
    let table = [
        // Nothing is due.
        (0, 59, One, vec![]),
        (60, 60, One, vec![]),
        // In time, and late by less than two minutes: whatever the treatment.
        (0, 60, Skip, vec![(60, 0)]),
        (0, 61, One, vec![(60, 0)]),
        (0, 179, All, vec![(60, 0), (120, 0)]),
        (0, 179, Skip, vec![(60, 0), (120, 0)]),
        (0, 179, One, vec![(60, 0), (120, 0)]),
        // The first of them is two minutes late.
        (0, 180, Skip, vec![(120, 0), (180, 0)]),
        (0, 180, One, vec![(180, 2)]),
        (0, 180, All, vec![(60, 0), (120, 0), (180, 0)]),
        // An hour.
        (0, 3_600, Skip, vec![(3_540, 0), (3_600, 0)]),
        (0, 3_600, One, vec![(3_600, 59)]),
        // A clock that was set back.
        (3_600, 60, All, vec![]),
    ];
    for (from, now, missed, expected) in table {
        let found = fires(&minutely, from, now, missed, LATE);
        assert_eq!(found, expected, "from {from} to {now}, {missed:?}");
    }
    let all = fires(&minutely, 0, 3_600, All, LATE);
    assert_eq!((all.len(), all[0], all[59]), (60, (60, 0), (3_600, 0)));
}

#[test]
fn nothing_is_late_after_a_pause() {
    use Missed::{All, One, Skip};
    let minutely = deadlines(&[every(60)]);
    for (missed, expected) in
        [(Skip, vec![]), (One, vec![(120, 1)]), (All, vec![(60, 0), (120, 0)])]
    {
        assert_eq!(fires(&minutely, 0, 130, missed, Duration::ZERO), expected, "{missed:?}");
    }
    assert_eq!(fires(&minutely, 0, 59, One, Duration::ZERO), []);
}

#[test]
fn what_is_made_up_for_is_bounded() {
    let year = 366 * 24 * 3_600;
    let often = deadlines(&[every(1)]);
    let all = fires(&often, 0, year, Missed::All, LATE);
    assert_eq!(all.len(), MOST);
    assert_eq!((all[0].0, all[99].0), (year - 99, year));
    // Of those that were not made up for, so many are counted.
    assert_eq!(all[0].1, MOST_COUNTED + 1 - MOST);
    assert_eq!(all[1].1, 0);
    assert_eq!(fires(&often, 0, year, Missed::One, LATE), [(year, MOST_COUNTED)]);
    let rare = deadlines(&[Schedule::cron("0 0 29 2 *").unwrap()]);
    assert_eq!(fires(&rare, 0, year * 20, Missed::One, LATE).len(), 1);
}

#[test]
fn the_times_of_several_rules_count_once() {
    let both = deadlines(&[every(60), every(90)]);
    assert_eq!(
        fires(&both, 0, 190, Missed::All, LATE).into_iter().map(|(due, _)| due).collect::<Vec<_>>(),
        [60, 90, 120, 180]
    );
    assert_eq!(both.next(at(60)), Some(Deadline { due: at(90), at: at(90) }));
}

#[test]
fn jitter_moves_each_job_by_the_same_time_in_each_process() {
    let jitter = Duration::from_secs(100);
    let spread = |name: &str| Deadlines::new("mail", name, vec![every(60)], jitter).unwrap();
    let (one, same, other) = (spread("a"), spread("a"), spread("b"));
    let mut next = at(0);
    let mut moved = BTreeSet::new();
    let mut due = BTreeSet::new();
    for _ in 0..50 {
        let deadline = one.next(next).unwrap();
        assert_eq!(same.next(next), Some(deadline));
        let by = deadline.at.duration_since(deadline.due).unwrap();
        assert!(by < jitter && deadline.at > next);
        moved.insert(by);
        due.insert(deadline.due);
        // The jobs of an interval are those that are found one after the other.
        let fires = one.fires((next, deadline.at), Missed::Skip, LATE);
        assert_eq!(fires.jobs, [Fire { due: deadline.due, missed: 0 }]);
        next = deadline.at;
    }
    // No deadline comes twice.
    assert_eq!(due.len(), 50);
    assert!(moved.len() > 40);
    assert_ne!(one.next(at(0)).unwrap().at, other.next(at(0)).unwrap().at);
}

#[test]
fn deadlines_that_are_skipped_are_counted() {
    let minutely = deadlines(&[every(60)]);
    for (from, now, missed, late, skipped) in [
        (0, 3_600, Missed::Skip, LATE, 58),
        (0, 179, Missed::Skip, LATE, 0),
        (0, 179, Missed::Skip, Duration::ZERO, 2),
        (0, 3_600, Missed::One, LATE, 0),
        (3_600, 60, Missed::Skip, LATE, 0),
    ] {
        let fires = minutely.fires((at(from), at(now)), missed, late);
        assert_eq!(fires.skipped, skipped, "from {from} to {now}, {missed:?}");
    }
}

#[test]
fn a_jitter_is_no_longer_than_a_thousand_times() {
    let seconds = Duration::from_secs;
    let hourly_seconds = Schedule::cron("* * 3 * * *").unwrap();
    for (times, jitter, is_valid) in [
        (every(1), seconds(1_000), true),
        (every(1), seconds(1_001), false),
        (every(60), seconds(3_600), true),
        (hourly_seconds, seconds(3_600), false),
        (Schedule::cron("@yearly").unwrap(), seconds(400 * 86_400), true),
        (every(60), Duration::MAX, false),
    ] {
        let made = Deadlines::new("mail", "report", vec![times.clone()], jitter);
        assert_eq!(made.is_ok(), is_valid, "{times}, {jitter:?}");
    }
}

#[test]
fn the_id_of_a_job_is_that_of_its_deadline() {
    let of = |queue, name| Deadlines::new(queue, name, vec![every(60)], Duration::ZERO).unwrap();
    let one = of("mail", "report").id(at(60));
    assert_eq!(one, of("mail", "report").id(at(60)));
    for other in [
        of("mail", "report").id(at(61)),
        of("mail", "report-6").id(at(60)),
        of("mail.eu", "report").id(at(60)),
    ] {
        assert_ne!(one, other);
    }
}
