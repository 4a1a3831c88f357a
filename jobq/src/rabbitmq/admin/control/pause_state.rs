//! Whether a queue is taken for paused, from what is notified and what is answered. Pure.

use std::time::{Duration, Instant};

use crate::engine::Pause;

/// How long one who was notified of a pause does not believe an answer that there is none: on a
/// cluster, two nodes may see a binding at different moments.
const TRUST: Duration = Duration::from_secs(2);

/// Whether a queue is taken for paused.
#[derive(Debug, Default)]
pub(super) struct PauseState {
    pub(super) paused: Option<Pause>,
    trusted_until: Option<Instant>,
    /// Whether the last news is that somebody has resumed the queue.
    is_resumed: bool,
    /// How often it was notified of something.
    pub(super) notified: u64,
}

impl PauseState {
    /// Somebody has paused the queue.
    pub(super) fn notified_paused(&mut self, pause: Pause, now: Instant) {
        self.notified += 1;
        self.trusted_until = Some(now + TRUST);
        self.is_resumed = false;
        self.paused = Some(pause);
    }

    /// Somebody has resumed the queue, which the next answer confirms.
    pub(super) fn notified_resumed(&mut self) {
        self.notified += 1;
        self.trusted_until = None;
        self.is_resumed = true;
    }

    /// Follows the answer to a question that was asked when it had been notified this often.
    pub(super) fn answered(&mut self, is_paused: bool, notified: u64, now: Instant) {
        let is_trusted = self.trusted_until.is_some_and(|until| now < until);
        match (is_paused, &self.paused) {
            (true, None) => self.paused = Some(Pause::default()),
            (false, Some(_)) if notified == self.notified && !is_trusted => self.paused = None,
            _ => {}
        }
    }

    /// Whether it is taken for paused and nobody has said that this is over.
    pub(super) fn expects_pause(&self) -> bool {
        self.paused.is_some() && !self.is_resumed
    }

    /// Whether it is paused and nobody has said why.
    pub(super) fn lacks_record(&self) -> bool {
        self.paused.as_ref().is_some_and(|pause| *pause == Pause::default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    enum Step {
        Paused(u64),
        Resumed,
        /// An answer at this second, to a question before the last news if `is_old`.
        Answer {
            is_paused: bool,
            at: u64,
            is_old: bool,
        },
    }
    use Step::{Answer, Paused, Resumed};

    #[test]
    fn an_answer_decides_unless_a_later_order_does() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let yes = |at| Answer { is_paused: true, at, is_old: false };
        let no = |at| Answer { is_paused: false, at, is_old: false };
        let old = |is_paused, at| Answer { is_paused, at, is_old: true };
        let table: [(&[Step], bool); 13] = [
            (&[], false),
            (&[no(0)], false),
            (&[yes(0)], true),
            (&[yes(0), no(1)], false),
            (&[no(0), yes(1)], true),
            (&[Paused(0)], true),
            // The node of this client may not have the binding yet.
            (&[Paused(0), no(1)], true),
            (&[Paused(0), no(3)], false),
            (&[Paused(0), old(false, 3)], true),
            (&[Paused(0), Paused(2), no(3)], true),
            // The node of this client may still have the binding.
            (&[Paused(0), Resumed, yes(1)], true),
            (&[Paused(0), Resumed, no(1)], false),
            (&[Paused(0), Resumed, old(false, 1)], true),
        ];
        for (number, (steps, expected)) in table.iter().enumerate() {
            let mut state = PauseState::default();
            for step in *steps {
                match step {
                    Paused(second) => state.notified_paused(Pause::default(), at(*second)),
                    Resumed => state.notified_resumed(),
                    Answer { is_paused, at: second, is_old } => {
                        let notified = state.notified - u64::from(*is_old);
                        state.answered(*is_paused, notified, at(*second));
                    }
                }
            }
            assert_eq!(state.paused.is_some(), *expected, "row {number}");
        }
    }

    #[test]
    fn a_pause_is_expected_until_somebody_resumes() {
        let now = Instant::now();
        let mut state = PauseState::default();
        assert!(!state.expects_pause());
        for _ in 0..2 {
            state.notified_paused(Pause::default(), now);
            assert!(state.expects_pause());
            state.notified_resumed();
            assert!(state.paused.is_some() && !state.expects_pause());
        }
    }

    #[test]
    fn a_record_is_kept_while_the_queue_stays_paused() {
        let now = Instant::now();
        let mut state = PauseState::default();
        assert!(!state.lacks_record());
        state.answered(true, 0, now);
        assert!(state.lacks_record());
        let pause = Pause::new(SystemTime::UNIX_EPOCH, "ann", "upgrade");
        state.notified_paused(pause.clone(), now);
        state.answered(true, state.notified, now);
        assert_eq!(state.paused, Some(pause));
        assert!(!state.lacks_record());
    }
}
