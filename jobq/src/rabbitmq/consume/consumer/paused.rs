//! A feed whose queue is paused: it has no consumer on the broker until the queue is resumed.

use tokio::sync::watch;

use super::{End, Feed};
use crate::engine::Pause;
use crate::rabbitmq::consume::live::ChannelConsumer;
use crate::rabbitmq::consume::origins::Origins;
use crate::rabbitmq::consume::received::Source;
use crate::rabbitmq::control::Gate;

impl Feed {
    /// Ends the consumer, since the queue is paused, and requeues its untaken messages. A solo run
    /// that was started is forwarded: the worker's release undoes its start.
    pub(super) async fn halt(&self, origins: Origins, consumer: ChannelConsumer) -> End {
        let untaken = self.cancel(origins, consumer).await;
        self.tell_pause();
        if let Source::Solo(_) = self.source {
            for delivery in untaken {
                self.forward(delivery);
            }
        }
        End::Paused
    }

    /// Tells the consumer that the queue is paused.
    pub(super) fn tell_pause(&self) {
        if let Some(gate) = &self.gate {
            tell(&self.told, gate.pauses().borrow().clone());
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.is_paused())
    }

    /// Waits while the queue is paused. False if the consumer is stopped first.
    pub(super) async fn wait_while_paused(&mut self) -> bool {
        let Some(gate) = self.gate.clone() else {
            return true;
        };
        self.interruption.end();
        let (mut pauses, told) = (gate.pauses(), self.told.clone());
        let resumed = async {
            loop {
                let pause = pauses.borrow_and_update().clone();
                if pause.is_none() {
                    return;
                }
                // The record of a pause may change.
                tell(&told, pause);
                if pauses.changed().await.is_err() {
                    return;
                }
            }
        };
        self.unless_stopped(resumed).await.is_some()
    }
}

/// Tells the consumer of a pause, unless it knows it: it would log the pause again.
fn tell(told: &watch::Sender<Option<Pause>>, pause: Option<Pause>) {
    told.send_if_modified(|known| {
        let is_news = *known != pause;
        *known = pause;
        is_news
    });
}

/// Waits until the queue is paused.
pub(super) async fn paused(pauses: &mut Option<watch::Receiver<Option<Pause>>>) {
    let Some(pauses) = pauses else {
        return std::future::pending().await;
    };
    let _ = pauses.wait_for(Option::is_some).await;
}

/// Asks whether the queue is paused.
pub(super) async fn ask_for_pause(gate: Option<&Gate>) {
    if let Some(gate) = gate {
        gate.ask().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_consumer_is_told_of_each_record_once() {
        let told = watch::Sender::new(None);
        let mut seen = told.subscribe();
        let record = |why| Some(Pause::new(SystemTime::UNIX_EPOCH, "ann", why));
        for (pause, is_news) in [
            (None, false),
            (record("one"), true),
            (record("one"), false),
            (record("two"), true),
            (None, true),
        ] {
            tell(&told, pause.clone());
            assert_eq!(seen.has_changed().unwrap(), is_news, "{pause:?}");
            assert_eq!(*seen.borrow_and_update(), pause);
        }
    }
}
