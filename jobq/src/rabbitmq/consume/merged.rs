//! The feeds of a queue's lanes as one intake.

use async_trait::async_trait;
use futures_util::future::{join_all, select_all};
use tokio::sync::watch;

use super::feed::FeedIntake;
use crate::background;
use crate::engine::{Intake, Interruption, Pause};

/// The intake of a queue whose jobs have priorities: a feed for each lane.
#[derive(Debug)]
pub(super) struct MergedIntake {
    feeds: Vec<FeedIntake>,
    interruptions: watch::Receiver<Option<Interruption>>,
    pauses: watch::Receiver<Option<Pause>>,
}

impl MergedIntake {
    pub(super) fn new(feeds: Vec<FeedIntake>) -> Self {
        let interruptions = feeds.iter().map(Intake::interruptions).collect();
        let pauses = feeds.iter().map(Intake::pauses).collect();
        // A queue is paused when none of its lanes takes jobs any more.
        let of_all = |lanes: &[Option<Pause>]| {
            lanes.iter().all(Option::is_some).then(|| lanes.first()?.clone()).flatten()
        };
        let first = |lanes: &[Option<Interruption>]| lanes.iter().flatten().next().cloned();
        Self { feeds, interruptions: merge(interruptions, first), pauses: merge(pauses, of_all) }
    }
}

#[async_trait]
impl Intake for MergedIntake {
    async fn set_prefetch(&self, prefetch: u16) {
        join_all(self.feeds.iter().map(|feed| feed.set_prefetch(prefetch))).await;
    }

    async fn stop(&self) {
        join_all(self.feeds.iter().map(FeedIntake::stop)).await;
    }

    fn interruptions(&self) -> watch::Receiver<Option<Interruption>> {
        self.interruptions.clone()
    }

    fn pauses(&self) -> watch::Receiver<Option<Pause>> {
        self.pauses.clone()
    }

    fn names(&self) -> Vec<String> {
        self.feeds.iter().flat_map(FeedIntake::names).collect()
    }

    fn has_priorities(&self) -> bool {
        true
    }

    async fn settled(&self) {
        join_all(self.feeds.iter().map(FeedIntake::settled)).await;
    }
}

/// One value of several, which follows their changes until nobody looks at it, or they have ended.
fn merge<T: Clone + Send + Sync + 'static>(
    mut sources: Vec<watch::Receiver<Option<T>>>,
    merged: impl Fn(&[Option<T>]) -> Option<T> + Send + 'static,
) -> watch::Receiver<Option<T>> {
    let now = move |sources: &mut [watch::Receiver<Option<T>>]| {
        let values = sources.iter_mut().map(|source| source.borrow_and_update().clone());
        merged(&values.collect::<Vec<_>>())
    };
    let (sender, receiver) = watch::channel(now(&mut sources));
    background::spawn(async move {
        loop {
            let changes = sources.iter_mut().map(|source| Box::pin(source.changed()));
            let is_over = tokio::select! {
                (change, ..) = select_all(changes) => change.is_err(),
                () = sender.closed() => true,
            };
            if is_over {
                return;
            }
            sender.send_replace(now(&mut sources));
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_merged_value_follows_its_sources() {
        let sources: Vec<_> = (0..2).map(|_| watch::Sender::new(None)).collect();
        let all = |values: &[Option<u32>]| values.iter().copied().sum::<Option<u32>>();
        let mut merged = merge(sources.iter().map(watch::Sender::subscribe).collect(), all);
        assert_eq!(*merged.borrow_and_update(), None);
        sources[0].send_replace(Some(1));
        sources[1].send_replace(Some(2));
        assert_eq!(*merged.wait_for(Option::is_some).await.unwrap(), Some(3));
        sources[0].send_replace(None);
        assert_eq!(*merged.wait_for(Option::is_none).await.unwrap(), None);
        drop(sources);
        assert!(merged.wait_for(Option::is_some).await.is_err(), "there are no more");
    }
}
