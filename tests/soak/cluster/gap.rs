//! How long the service stood still.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use jobq_tests::account::Account;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How often the ledger is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The longest times in which nothing was accepted and in which nothing ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gap {
    /// Without an `enqueue` that was `Ok`.
    pub(crate) accepted: Duration,
    /// Without a job that completed or failed for good.
    pub(crate) ended: Duration,
}

/// Reads a ledger and a clock.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: CancellationToken,
    watching: JoinHandle<Gap>,
}

impl Watch {
    pub(crate) fn start(ledger: &Path) -> Self {
        let (stop, path) = (CancellationToken::new(), ledger.to_owned());
        let stopped = stop.clone();
        let watching = tokio::spawn(async move {
            let mut account = Account::default();
            account.read(&path);
            let mut gap = Gap::default();
            let (mut seen, mut last) = (account.progress(), [Instant::now(); 2]);
            while !stopped.is_cancelled() {
                tokio::time::sleep(LOOK).await;
                account.read(&path);
                let (now, progress) = (Instant::now(), account.progress());
                gap.accepted = gap.accepted.max(now - last[0]);
                gap.ended = gap.ended.max(now - last[1]);
                if progress.0 > seen.0 {
                    last[0] = now;
                }
                if progress.1 > seen.1 {
                    last[1] = now;
                }
                seen = progress;
            }
            gap
        });
        Self { stop, watching }
    }

    pub(crate) async fn stop(self) -> Gap {
        self.stop.cancel();
        self.watching.await.unwrap()
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} s without an accepted job, {:.2} s without one that ended",
            self.accepted.as_secs_f64(),
            self.ended.as_secs_f64()
        )
    }
}

/// What some of them were.
pub(crate) fn summary(gaps: &[Gap]) -> String {
    let accepted = spread(gaps, |gap| gap.accepted);
    let ended = spread(gaps, |gap| gap.ended);
    format!("gaps (shortest, median, longest): accepted {accepted}; ended {ended}")
}

/// The shortest, the middle one and the longest of some.
fn spread(gaps: &[Gap], of: impl Fn(&Gap) -> Duration) -> String {
    let mut all: Vec<_> = gaps.iter().map(|gap| of(gap).as_secs_f64()).collect();
    all.sort_by(f64::total_cmp);
    match all[..] {
        [] => "none".to_owned(),
        _ => format!("{:.2} s, {:.2} s, {:.2} s", all[0], all[all.len() / 2], all[all.len() - 1]),
    }
}
