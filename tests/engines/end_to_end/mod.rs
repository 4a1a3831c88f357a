//! jobq through its public API alone, on both engines.

mod attempts;
mod controls;
mod durations;
pub(crate) mod enqueue;
mod events;
mod expiry;
pub(crate) mod failed;
mod mixes;
mod payloads;
mod pools;

use jobq::Client;
use jobq_tests::test_store::until;

async fn nothing_is_left(client: &Client, queue: &str) {
    until("an empty queue", || async {
        let counts = client.counts(queue).await.unwrap();
        counts.is_empty().then_some(())
    })
    .await;
}
