//! From which row a relay takes the next ones.
//!
//! Rows get their numbers when they are inserted, and are seen when their transactions commit: a row may
//! appear behind others that were taken already. Taking from the first row would find it, but the database
//! then walks over all rows that were deleted and not yet vacuumed, at each take. So a relay takes from
//! where it was five seconds ago, and twice a minute from the first row, for longer transactions and for
//! rows that are tried again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How far a relay looks back.
const BACK: Duration = Duration::from_secs(5);
/// How often a relay in a backlog looks back.
const LOOKS: Duration = Duration::from_secs(1);
/// How often it looks at all rows.
const SWEEPS: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Cursor {
    /// The last rows that were taken, and when, oldest first.
    marks: VecDeque<(Instant, i64)>,
    /// The position of the look that goes on, if it has more rows.
    position: Option<i64>,
    looked_back: Instant,
    swept: Option<Instant>,
}

impl Cursor {
    pub(super) fn new(now: Instant) -> Self {
        Self { marks: VecDeque::new(), position: None, looked_back: now, swept: None }
    }

    /// The number after which the next rows are taken.
    pub(super) fn next(&mut self, now: Instant) -> i64 {
        if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEPS) {
            self.swept = Some(now);
            self.looked_back = now;
            return 0;
        }
        if let Some(position) = self.position
            && now.duration_since(self.looked_back) < LOOKS
        {
            return position;
        }
        self.looked_back = now;
        while self.marks.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= BACK) {
            self.marks.pop_front();
        }
        match self.marks.front() {
            Some((at, seq)) if now.duration_since(*at) >= BACK => *seq,
            _ => 0,
        }
    }

    /// Rows up to this number were taken and settled, and there may be more if the batch is full.
    pub(super) fn took(&mut self, now: Instant, last: i64, is_full: bool) {
        self.position = is_full.then_some(last);
        // A look back meets lower numbers than the one before.
        let highest = self.marks.back().map_or(last, |(_, seq)| last.max(*seq));
        match self.marks.back_mut() {
            // One a tenth of a second is precise enough.
            Some((at, seq)) if now.duration_since(*at) < BACK / 50 => *seq = highest,
            _ => self.marks.push_back((now, highest)),
        }
    }

    /// No rows are left after the position.
    pub(super) fn took_nothing(&mut self) {
        self.position = None;
    }

    /// Rows were given back: the next look begins at the first row.
    pub(super) fn gave_back(&mut self) {
        (self.position, self.swept) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at these times, in milliseconds, with the last row of each and whether it was full.
    fn walk(steps: &[(u64, i64, bool)]) -> Vec<i64> {
        let begin = Instant::now();
        let mut cursor = Cursor::new(begin);
        let look = |(at, last, is_full): &(u64, i64, bool)| {
            let now = begin + Duration::from_millis(*at);
            let after = cursor.next(now);
            match last {
                0 => cursor.took_nothing(),
                last => cursor.took(now, *last, *is_full),
            }
            after
        };
        steps.iter().map(look).collect()
    }

    #[test]
    fn it_looks_back_five_seconds() {
        let steps = [
            (0, 10, false),
            (200, 0, false),
            (4_000, 20, false),
            (5_000, 0, false),
            (5_200, 0, false),
            (8_999, 0, false),
            (9_000, 0, false),
        ];
        assert_eq!(walk(&steps), [0, 0, 0, 10, 10, 10, 20]);
    }

    #[test]
    fn a_backlog_is_taken_from_position_to_position() {
        let steps = [
            (0, 500, true),
            (10, 1_000, true),
            (20, 1_500, true),
            // It looks back once a second, and goes on from there.
            (1_000, 600, true),
            (1_010, 2_000, true),
            (1_020, 2_100, false),
            (1_030, 0, false),
        ];
        assert_eq!(walk(&steps), [0, 500, 1_000, 0, 600, 2_000, 0]);
    }

    #[test]
    fn all_rows_are_looked_at_twice_a_minute() {
        let steps = [
            (0, 10, false),
            (29_999, 0, false),
            (30_000, 0, false),
            (30_200, 0, false),
            (60_000, 0, false),
        ];
        assert_eq!(walk(&steps), [0, 10, 0, 10, 0]);
    }

    #[test]
    fn rows_that_were_given_back_are_looked_for_at_once() {
        let begin = Instant::now();
        let mut cursor = Cursor::new(begin);
        let at = |seconds| begin + Duration::from_secs(seconds);
        cursor.next(at(0));
        cursor.took(at(0), 500, true);
        assert_eq!(cursor.next(at(10)), 500);
        cursor.gave_back();
        assert_eq!(cursor.next(at(11)), 0);
    }

    #[test]
    fn the_marks_are_few() {
        let begin = Instant::now();
        let mut cursor = Cursor::new(begin);
        for step in 0..100_000 {
            let now = begin + Duration::from_millis(step);
            cursor.next(now);
            cursor.took(now, 0, true);
        }
        assert!(cursor.marks.len() < 70, "{}", cursor.marks.len());
    }
}
