//! The clock of tokio, where a test has paused it.

use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Moves the clock of tokio forward if it is paused: a sleep takes no time then.
/// `tokio::time::advance` needs a feature of tokio with which all that depends on tokio is compiled
/// once more.
pub(super) async fn advance(by: Duration) {
    if is_paused() {
        sleep(by).await;
    }
}

/// Whether the clock of tokio stands still. tokio does not tell, so it is read before and after
/// the system's clock has moved.
fn is_paused() -> bool {
    let (before, start) = (tokio::time::Instant::now(), Instant::now());
    while Instant::now() == start {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == before
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[tokio::test]
    async fn a_running_clock_is_not_moved() {
        assert!(!is_paused());
        let before = tokio::time::Instant::now();
        advance(DAY).await;
        assert!(before.elapsed() < DAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_moved() {
        assert!(is_paused());
        let before = tokio::time::Instant::now();
        advance(DAY).await;
        // tokio counts in milliseconds.
        let millisecond = Duration::from_millis(1);
        assert!((DAY..=DAY + millisecond).contains(&before.elapsed()), "{:?}", before.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_meanwhile_goes_on_at_its_time() {
        let (before, hour) = (tokio::time::Instant::now(), Duration::from_secs(3_600));
        let waiting = tokio::spawn(async move {
            sleep(hour).await;
            before.elapsed()
        });
        advance(DAY).await;
        let at = waiting.await.unwrap();
        assert!((hour..DAY).contains(&at), "{at:?}");
    }
}
