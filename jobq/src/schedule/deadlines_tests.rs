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
    Deadlines::new("report", times.to_vec(), Duration::ZERO)
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
    fires.into_iter().map(|fire| (to_millis(fire.due) / 1_000, fire.missed)).collect()
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
    let spread = |name: &str| Deadlines::new(name, vec![every(60)], jitter);
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
        assert_eq!(fires, [Fire { due: deadline.due, missed: 0 }]);
        next = deadline.at;
    }
    // No deadline comes twice.
    assert_eq!(due.len(), 50);
    assert!(moved.len() > 40);
    assert_ne!(one.next(at(0)).unwrap().at, other.next(at(0)).unwrap().at);
}

#[test]
fn the_id_of_a_job_is_that_of_its_deadline() {
    assert_eq!(id_of("report", at(60)), id_of("report", at(60)));
    assert_ne!(id_of("report", at(60)), id_of("report", at(61)));
    assert_ne!(id_of("report", at(60)), id_of("report-6", at(60)));
}
