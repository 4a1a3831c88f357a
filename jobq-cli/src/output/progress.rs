//! The progress of an operation, on a terminal alone.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jobq::admin::{Phase, Progress};

use super::Output;
use crate::log::{self, Keeping};

/// The time between two steps of the spinner while nothing else changes.
const STEADY: Duration = Duration::from_millis(200);

/// A line on standard error that tells how far an operation is: a spinner, since no total is known
/// before the end. The log waits until it is gone.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    _keeping: Option<Keeping>,
}

impl Bar {
    pub(crate) fn new(output: Output) -> Self {
        let is_shown = io::stderr().is_terminal() && !output.is_json();
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(STEADY);
        Self { bar, _keeping: is_shown.then(log::keep) }
    }

    pub(crate) fn show(&self, progress: &Progress) {
        self.say(&sentence(progress));
    }

    pub(crate) fn say(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn sentence(progress: &Progress) -> String {
    let Progress { examined, matched, settled, refused, .. } = progress;
    let phase = match progress.phase {
        Phase::Canary => ", waiting for the outcomes of the canaries",
        Phase::Waiting => ", waiting because of the rate",
        _ if *examined > 0 => &format!(", looked at {examined}"),
        _ => ", looking at the failed jobs",
    };
    let refused = match refused {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    format!("{settled} done, {matched} match so far{refused}{phase}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_sentence() {
        let mut progress = Progress::default();
        let expected = "0 done, 0 match so far, looking at the failed jobs";
        assert_eq!(sentence(&progress), expected);
        (progress.examined, progress.matched) = (3_000, 112);
        assert_eq!(sentence(&progress), "0 done, 112 match so far, looked at 3000");
        (progress.matched, progress.settled, progress.refused) = (112, 40, 1);
        progress.phase = Phase::Waiting;
        let expected = "40 done, 112 match so far, 1 refused, waiting because of the rate";
        assert_eq!(sentence(&progress), expected);
    }
}
