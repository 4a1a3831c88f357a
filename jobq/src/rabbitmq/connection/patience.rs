//! How long calls wait for a broker that is out of reach.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::supervised::SupervisedConnection;
use crate::background;
use crate::error::{Error, ErrorKind};
use crate::period;

/// How long calls wait for a connection that the broker reads from. Without a limit they wait until
/// their timeout.
#[derive(Debug, Clone)]
pub(crate) struct Patience(Option<Limit>);

#[derive(Debug, Clone)]
struct Limit {
    after: Duration,
    has_ended: watch::Receiver<bool>,
}

impl Patience {
    /// Patience that ends once the connection has been out of reach for this long; `None` never ends.
    pub(super) fn with(link: &SupervisedConnection, after: Option<Duration>) -> Self {
        Self(after.map(|after| {
            let (told, has_ended) = watch::channel(false);
            background::spawn(follow(link.clone(), after, told));
            Limit { after, has_ended }
        }))
    }

    /// Whether calls fail at once.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(|limit| *limit.has_ended.borrow())
    }

    /// Waits until calls fail at once.
    pub(crate) async fn ended(&self) {
        if let Some(limit) = &self.0
            && limit.has_ended.clone().wait_for(|has_ended| *has_ended).await.is_ok()
        {
            return;
        }
        pending::<()>().await;
    }

    /// The error of a call that fails at once, with the reason why the broker is out of reach.
    pub(crate) fn error(&self, doing: &str, trouble: &str) -> Error {
        let after = self.0.as_ref().map(|limit| limit.after).unwrap_or_default();
        let after = period::format(after);
        let text = format!(
            "{doing}: the broker has been out of reach for longer than {after} \
             (`fail_fast_after`); {trouble}"
        );
        Error::new(ErrorKind::Timeout, text)
    }
}

/// Follows the connection until it is closed.
async fn follow(link: SupervisedConnection, after: Duration, has_ended: watch::Sender<bool>) {
    loop {
        link.down().await;
        if timeout(after, link.up()).await.is_err() {
            has_ended.send_replace(true);
        }
        if link.up().await.is_err() {
            return;
        }
        has_ended.send_replace(false);
    }
}
