//! Whether a consumer may take jobs, as somebody else decides.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::engine::Pause;

/// Keeps the consumers of a queue from taking jobs while it is shut.
#[async_trait]
pub(crate) trait Valve: std::fmt::Debug + Send + Sync {
    /// Finds out anew whether it is shut, and returns when that is known, or cannot be.
    async fn recheck(&self);

    /// Why it is shut, while it is, and the changes.
    fn pauses(&self) -> watch::Receiver<Option<Pause>>;

    /// Whether it is shut.
    fn is_shut(&self) -> bool {
        self.pauses().borrow().is_some()
    }

    /// Waits while it is shut.
    async fn opened(&self) {
        let _ = self.pauses().wait_for(Option::is_none).await;
    }
}

/// The pause of a queue as its consumer is told of it: after it was cancelled, so that no job that it
/// releases comes back to it.
#[derive(Debug)]
pub(super) struct ToldPause {
    valve: Option<watch::Receiver<Option<Pause>>>,
    told: watch::Sender<Option<Pause>>,
}

impl ToldPause {
    pub(super) fn new(valve: Option<&Arc<dyn Valve>>) -> Self {
        Self { valve: valve.map(|valve| valve.pauses()), told: watch::Sender::default() }
    }

    /// What the consumer is told.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Pause>> {
        self.told.subscribe()
    }

    /// Whether the consumer is told of no pause.
    pub(super) fn is_open(&self) -> bool {
        self.told.borrow().is_none()
    }

    /// The pause of the queue now.
    pub(super) fn current(&mut self) -> Option<Pause> {
        self.valve.as_mut().and_then(|valve| valve.borrow_and_update().clone())
    }

    /// The next pause of the queue, or `None` when it goes on.
    pub(super) async fn next(&mut self) -> Option<Pause> {
        if let Some(valve) = &mut self.valve
            && valve.changed().await.is_ok()
        {
            return valve.borrow_and_update().clone();
        }
        std::future::pending().await
    }

    /// Tells the consumer of a pause or its end, unless it knows it: it would log the pause again.
    pub(super) fn tell(&self, pause: Option<Pause>) {
        self.told.send_if_modified(|known| {
            let is_news = *known != pause;
            *known = pause;
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_consumer_is_told_of_each_record_once() {
        let told = ToldPause::new(None);
        let mut seen = told.subscribe();
        let record = |why| Some(Pause::new(SystemTime::UNIX_EPOCH, "ann", why));
        for (pause, is_news) in [
            (None, false),
            (record("one"), true),
            (record("one"), false),
            (record("two"), true),
            (None, true),
        ] {
            told.tell(pause.clone());
            assert_eq!(seen.has_changed().unwrap(), is_news, "{pause:?}");
            assert_eq!(*seen.borrow_and_update(), pause);
        }
    }
}
