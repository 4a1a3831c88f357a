//! The renewal of the credentials of an open connection.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use lapin::Connection;
use tokio::time::{sleep, sleep_until, timeout};

use crate::period;
use crate::rabbitmq::connection::identity::{Held, Identity};

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
        let update = connection.update_secret(newer.secret().text().into(), "renewed".into());
        match timeout(patience, update).await {
            Ok(Ok(())) => tracing::debug!(connection = name, "credentials renewed"),
            Ok(Err(error)) => {
                identity.refused(&newer).await;
                return format!("the broker refuses its renewed credentials: {error}");
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
    let mut waits = waits();
    loop {
        match identity.newer(held).await {
            Ok(newer) => return newer,
            Err(error) => {
                let error = identity.trouble().unwrap_or(error);
                tracing::warn!(%error, connection = name, "could not renew the credentials; retrying");
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
