//! Waits for what a relay and its jobs do.

use std::time::Duration;

use jobq::Client;
use jobq::relay::{RelayHealth, RelayState, RunningRelay};
use jobq_outbox_facts::{Effects, Note};
use tokio::time::{sleep, timeout};

const LIMIT: Duration = Duration::from_mins(1);

pub(crate) async fn client() -> Client {
    Client::builder("sqlite::memory:").program("shop").connect().await.unwrap()
}

pub(crate) fn note(text: &str) -> Note {
    Note { text: text.to_owned() }
}

pub(crate) fn texts(effects: &Effects) -> Vec<String> {
    effects.all().into_iter().map(|effect| effect.text).collect()
}

/// Waits until this is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LIMIT, waiting).await.is_ok(), "{what}");
}

pub(crate) async fn until_state(
    relay: &RunningRelay,
    what: &str,
    is_so: fn(&RelayState) -> bool,
) -> RelayHealth {
    let waiting = async {
        while !is_so(&relay.health().state) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LIMIT, waiting).await.is_ok(), "{what}: {:?}", relay.health());
    relay.health()
}

pub(crate) fn is_sending(state: &RelayState) -> bool {
    matches!(state, RelayState::Sending)
}

pub(crate) fn is_interrupted(state: &RelayState) -> bool {
    matches!(state, RelayState::Interrupted { .. })
}

pub(crate) fn error_of(health: &RelayHealth) -> String {
    let RelayState::Interrupted { error, .. } = &health.state else { panic!("{health:?}") };
    error.to_string()
}
