//! The renewal of the credentials of an open connection.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use lapin::Connection;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::State;
use crate::period;
use crate::rabbitmq::connection::identity::{Held, Identity};
use crate::repeated::{Line, Repeated};

/// Between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Renews the credentials of a connection when two thirds of their time have passed, until the
/// connection must be replaced. Returns the reason for that.
pub(super) async fn renew(
    connection: &Connection,
    name: &str,
    identity: &Identity,
    mut held: Arc<Held>,
    patience: Duration,
    mut state: watch::Receiver<State>,
) -> String {
    loop {
        let Some(due) = held.renewal() else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let newer = newer(name, identity, &held).await;
        if !newer.has_user_of(&held) {
            return "its credentials are those of another user now".to_owned();
        }
        // The broker would not read it.
        let _ = state.wait_for(|state| !matches!(state, State::Blocked(..))).await;
        let update = connection.update_secret(newer.secret().text().into(), "renewed".into());
        // At the level TRACE `lapin` logs the secret.
        match timeout(patience, update.with_subscriber(NoSubscriber::default())).await {
            Ok(Ok(())) => tracing::debug!(connection = name, "credentials renewed"),
            Ok(Err(error)) => {
                identity.refused(&newer).await;
                return format!("the broker did not take its renewed credentials: {error}");
            }
            Err(_) => {
                let waited = period::format(patience);
                return format!("the broker did not take its renewed credentials in {waited}");
            }
        }
        held = newer;
    }
}

/// Newer credentials, for which the source is asked until it returns them.
async fn newer(name: &str, identity: &Identity, held: &Arc<Held>) -> Arc<Held> {
    let (mut waits, mut failed) = (waits(), Repeated::default());
    loop {
        match identity.newer(held).await {
            Ok(newer) => return newer,
            Err(error) => {
                let error = identity.trouble().unwrap_or(error);
                if let Some(Line { more }) = failed.happens(Instant::now()) {
                    tracing::warn!(
                        %error, connection = name, more,
                        "could not renew the credentials; retrying"
                    );
                }
                sleep(waits.next().unwrap_or(LONGEST_WAIT)).await;
            }
        }
    }
}

fn waits() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(LONGEST_WAIT)
        .without_max_times()
        .build()
}
