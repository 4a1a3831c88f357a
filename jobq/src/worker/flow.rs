//! Whether a queue takes jobs, and if not, why. Pure.

use crate::engine::Pause;

/// The state of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    /// It takes jobs.
    Open,
    /// The engine gives it none, and none that it has starts.
    Paused(Pause),
    /// It has no consumer.
    Resting(Rest),
}

/// Why a queue has no consumer, the strongest reason last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rest {
    /// Functions past their timeout hold all slots.
    SlotsLost,
    /// A job runs alone, or is about to.
    Solo,
    /// The pool was told to take no more jobs.
    Quiet,
    /// The pool is shut down.
    Stopped,
}

/// All that keeps a queue from taking jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct Holds {
    pub(super) pause: Option<Pause>,
    rest: Option<Rest>,
}

impl Holds {
    /// Adds a reason to rest.
    pub(super) fn rest(&mut self, rest: Rest) {
        self.rest = self.rest.max(Some(rest));
    }

    /// The state of the queue. A rest is stronger than a pause, so that the end of one opens nothing.
    pub(super) fn flow(&self) -> Flow {
        match (self.rest, &self.pause) {
            (Some(rest), _) => Flow::Resting(rest),
            (None, Some(pause)) => Flow::Paused(pause.clone()),
            (None, None) => Flow::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_hold_wins() {
        use Rest::{Quiet, SlotsLost, Solo, Stopped};
        let table: [(Option<Pause>, &[Rest], Flow); 7] = [
            (None, &[], Flow::Open),
            (Some(Pause::default()), &[], Flow::Paused(Pause::default())),
            (None, &[Solo], Flow::Resting(Solo)),
            (Some(Pause::default()), &[SlotsLost], Flow::Resting(SlotsLost)),
            (Some(Pause::default()), &[Solo, SlotsLost], Flow::Resting(Solo)),
            (None, &[SlotsLost, Quiet, Solo], Flow::Resting(Quiet)),
            (None, &[Quiet, Stopped, Solo], Flow::Resting(Stopped)),
        ];
        for (pause, rests, flow) in table {
            let mut holds = Holds { pause, rest: None };
            for rest in rests {
                holds.rest(*rest);
            }
            assert_eq!(holds.flow(), flow, "{holds:?}");
        }
    }
}
