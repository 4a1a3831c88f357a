//! Turns of the calls of one client, since the broker distinguishes connections only.

use std::collections::HashSet;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::guard::lock;

/// The queues whose failed jobs a call of this client looks at.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Mutex<HashSet<String>>,
    ended: Notify,
}

/// The turn of one call. It ends when it is dropped.
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    queue: String,
}

impl Turns {
    /// Waits until no other call looks at the failed jobs of this queue.
    pub(super) async fn take(&self, queue: &str) -> Turn<'_> {
        loop {
            // Made before the look, so that no end is missed.
            let ended = self.ended.notified();
            if lock(&self.taken).insert(queue.to_owned()) {
                return Turn { turns: self, queue: queue.to_owned() };
            }
            ended.await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.turns.taken).remove(&self.queue);
        self.turns.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn calls_on_one_queue_take_turns_and_others_do_not_wait() {
        let turns = Turns::default();
        let mail = turns.take("mail").now_or_never().expect("the first call");
        let mut next = Box::pin(turns.take("mail"));
        assert!((&mut next).now_or_never().is_none(), "the first call has not ended");
        let other = turns.take("other").now_or_never().expect("another queue");
        drop(other);
        assert!((&mut next).now_or_never().is_none(), "the first call has not ended");
        drop(mail);
        assert!(next.now_or_never().is_some());
        assert!(lock(&turns.taken).is_empty(), "a turn that has ended is forgotten");
    }
}
