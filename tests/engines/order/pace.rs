//! How fast a store is while a test runs, whatever it is asked: what a busy machine costs.

use std::time::{Duration, Instant};

use jobq::{BoxError, Client, job};
use jobq_tests::jobs::reports_runs::millis;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Between two rounds of a watch.
const PAUSE: Duration = millis(10);

/// A job that nobody runs.
#[job]
async fn unheard() -> Result<(), BoxError> {
    Ok(())
}

/// Enqueues jobs without any wait, one by one.
#[derive(Debug)]
pub(crate) struct Watch {
    end: CancellationToken,
    watching: JoinHandle<Pace>,
}

impl Watch {
    pub(crate) async fn start(client: Client) -> Self {
        client.enqueue(Unheard {}).await.unwrap();
        let end = CancellationToken::new();
        let ended = end.clone();
        let watching = tokio::spawn(async move {
            let mut times = vec![Instant::now()];
            while !ended.is_cancelled() {
                tokio::time::sleep(PAUSE).await;
                client.enqueue(Unheard {}).await.unwrap();
                times.push(Instant::now());
            }
            Pace(times)
        });
        Self { end, watching }
    }

    pub(crate) async fn end(self) -> Pace {
        self.end.cancel();
        self.watching.await.unwrap()
    }
}

/// When each round ended.
#[derive(Debug)]
pub(crate) struct Pace(Vec<Instant>);

impl Pace {
    pub(crate) fn of(ends: &[Instant]) -> Self {
        Self(ends.to_vec())
    }

    /// The longest that the store took to confirm a job in a round that has a part between
    /// these times.
    pub(crate) fn slowest(&self, from: Instant, to: Instant) -> Duration {
        let rounds = self.0.iter().zip(self.0.iter().skip(1));
        let touching = rounds.filter(|(start, end)| **start <= to && from <= **end);
        let longest = touching.map(|(start, end)| *end - *start).max();
        longest.unwrap_or_default().saturating_sub(PAUSE)
    }

    /// The median, 99 of 100 and the longest.
    pub(crate) fn summary(&self) -> [Duration; 3] {
        let rounds = self.0.iter().zip(self.0.iter().skip(1));
        summary(rounds.map(|(start, end)| (*end - *start).saturating_sub(PAUSE)).collect())
    }
}

/// The median, 99 of 100 and the longest.
pub(crate) fn summary(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    [50, 99, 100].map(|part| times[(times.len() - 1) * part / 100])
}

#[test]
fn the_slowest_round_counts() {
    let start = Instant::now();
    let at = |time| start + millis(time);
    let pace = Pace([0, 20, 40, 140, 155, 200].map(at).to_vec());
    for (from, to, slowest) in [
        (0, 5, 10),
        (0, 39, 10),
        (30, 50, 90),
        (60, 70, 90),
        (141, 150, 5),
        (150, 190, 35),
        (300, 400, 0),
    ] {
        assert_eq!(pace.slowest(at(from), at(to)), millis(slowest), "{from} to {to}");
    }
    assert_eq!(pace.summary(), [10, 35, 90].map(millis));
}
