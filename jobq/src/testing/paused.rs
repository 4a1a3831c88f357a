//! The clock of tokio, where a test has paused it.

use std::time::{Duration, Instant};

/// Moves the clock of tokio forward if it is paused.
pub(super) async fn advance(by: Duration) {
    if is_paused() {
        tokio::time::advance(by).await;
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

    #[tokio::test]
    async fn a_running_clock_is_not_moved() {
        assert!(!is_paused());
        let before = tokio::time::Instant::now();
        advance(Duration::from_secs(86_400)).await;
        assert!(before.elapsed() < Duration::from_secs(86_400));
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_moved() {
        assert!(is_paused());
        let before = tokio::time::Instant::now();
        advance(Duration::from_secs(86_400)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(86_400));
    }
}
