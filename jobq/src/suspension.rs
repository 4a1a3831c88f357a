//! Suspensions of this process: by SIGSTOP, a frozen container, a debugger, or a machine that sleeps.
//!
//! A suspended process cannot notice that its engine gave its deliveries to others, and the bytes
//! that wait in its sockets are from before. A [`SuspensionWatch`] compares two clocks with their
//! last readings: one that counts the sleep of the machine, and the time of day, which is corrected
//! after a virtual machine was stopped. Where either advanced by more than a limit, nothing starts
//! until the engine has answered a question that was asked afterwards.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::background;
use crate::clock::since_boot;
use crate::guard::lock;

/// How often the clocks are read within a limit while nobody asks, so that the time without a job
/// is not taken for a suspension.
const READINGS: u32 = 4;

/// The readings of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    /// Includes the sleep of the machine. Zero if the system does not tell it.
    since_boot: Duration,
    time_of_day: SystemTime,
}

impl Reading {
    fn now() -> Self {
        Self { since_boot: since_boot().unwrap_or_default(), time_of_day: SystemTime::now() }
    }

    /// Whether either clock advanced by more than this since another reading.
    fn is_later(self, last: Self, limit: Duration) -> bool {
        self.since_boot > last.since_boot + limit || self.time_of_day > last.time_of_day + limit
    }
}

/// Which suspensions were noticed, and which of them were followed by an answer. Pure.
#[derive(Debug)]
struct Suspensions {
    limit: Duration,
    last: Reading,
    /// The number of suspensions so far.
    count: u64,
    /// The count when the newest answered question was asked.
    answered: u64,
}

impl Suspensions {
    fn new(limit: Duration, now: Reading) -> Self {
        Self { limit, last: now, count: 0, answered: 0 }
    }

    /// Counts a suspension if the clocks show one, and returns the count.
    fn read(&mut self, now: Reading) -> u64 {
        if now.is_later(self.last, self.limit) {
            self.count += 1;
        }
        self.last = now;
        self.count
    }

    /// Whether no question was answered that was asked after the last suspension.
    fn is_unanswered(&mut self, now: Reading) -> bool {
        self.read(now) > self.answered
    }

    /// A question was answered that was asked at this count.
    fn answer(&mut self, asked: u64) {
        self.answered = self.answered.max(asked);
    }
}

/// Notices suspensions of this process that are longer than a limit.
#[derive(Debug)]
pub(crate) struct SuspensionWatch(Mutex<Suspensions>);

impl SuspensionWatch {
    /// Watches until it is dropped.
    pub(crate) fn start(limit: Duration) -> Arc<Self> {
        let watch = Arc::new(Self(Mutex::new(Suspensions::new(limit, Reading::now()))));
        let weak = Arc::downgrade(&watch);
        background::spawn(async move {
            // It counts as any other reader does: a reading that only replaced the last one would
            // hide the suspension that it ends.
            while let Some(watch) = weak.upgrade() {
                watch.count();
                drop(watch);
                tokio::time::sleep(limit / READINGS).await;
            }
        });
        watch
    }

    /// The number of suspensions so far, for a question that is asked now.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).read(Reading::now())
    }

    /// Whether the engine may have given deliveries to others during a suspension: no question was
    /// answered that was asked after it.
    pub(crate) fn is_unanswered(&self) -> bool {
        lock(&self.0).is_unanswered(Reading::now())
    }

    /// A question was answered that was asked at this [`count`](Self::count).
    pub(crate) fn answer(&self, asked: u64) {
        lock(&self.0).answer(asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn at(since_boot: f64, time_of_day: f64) -> Reading {
        let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap();
        Reading {
            since_boot: seconds(since_boot),
            time_of_day: SystemTime::UNIX_EPOCH + seconds(time_of_day),
        }
    }

    #[test]
    fn a_suspension_shows_on_either_clock() {
        let last = at(100.0, 1_000.0);
        for (what, now, is_suspended) in [
            ("no time", last, false),
            ("the limit", at(102.0, 1_002.0), false),
            ("more than the limit", at(102.1, 1_002.1), true),
            ("a virtual machine was stopped", at(100.1, 1_016.0), true),
            ("the time of day is unchanged, as it was set back", at(116.0, 1_000.0), true),
            ("the time of day was set back", at(100.1, 10.0), false),
            ("the time of day was set forward: a false alarm", at(100.1, 9_999.0), true),
            ("a system that does not tell the time since boot", at(0.0, 1_001.0), false),
            ("such a system, suspended", at(0.0, 1_003.0), true),
        ] {
            let mut suspensions = Suspensions::new(LIMIT, last);
            assert_eq!(suspensions.is_unanswered(now), is_suspended, "{what}");
            assert_eq!(suspensions.is_unanswered(now), is_suspended, "{what}, read once more");
        }
    }

    #[test]
    fn only_an_answer_to_a_later_question_ends_it() {
        enum Step {
            /// Read at this time, with the expected result.
            Read(f64, bool),
            /// Ask at this time.
            Ask(f64),
            /// The answer to the question with this number.
            Answer(usize),
        }
        use Step::{Answer, Ask, Read};
        for (what, steps) in [
            (
                "a question",
                vec![Read(1.0, false), Read(9.0, true), Ask(9.1), Answer(0), Read(9.2, false)],
            ),
            ("a reading in between", vec![Read(9.0, true), Read(9.1, true), Read(9.2, true)]),
            ("asked before", vec![Ask(1.0), Read(9.0, true), Answer(0), Read(9.1, true)]),
            ("asked by whoever notices it", vec![Ask(9.0), Answer(0), Read(9.1, false)]),
            (
                "suspended again before the answer",
                vec![Read(9.0, true), Ask(9.1), Read(19.0, true), Answer(0), Read(19.1, true)],
            ),
            (
                "suspended again, which nobody noticed before the answer",
                vec![
                    Ask(9.1),
                    Answer(0),
                    Read(19.0, true),
                    Ask(19.1),
                    Answer(1),
                    Read(19.2, false),
                ],
            ),
            (
                "answers in another order",
                vec![Ask(1.0), Ask(9.0), Answer(1), Answer(0), Read(9.1, false)],
            ),
        ] {
            let mut suspensions = Suspensions::new(LIMIT, at(0.0, 0.0));
            let mut asked = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                match *step {
                    Read(time, expected) => {
                        let found = suspensions.is_unanswered(at(time, time));
                        assert_eq!(found, expected, "{what}, step {number}");
                    }
                    Ask(time) => asked.push(suspensions.read(at(time, time))),
                    Answer(question) => suspensions.answer(asked[question]),
                }
            }
        }
    }
}
