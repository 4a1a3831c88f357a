//! Changing credentials of connections, from [`ClientBuilder::credentials`].
//!
//! [`ClientBuilder::credentials`]: crate::ClientBuilder::credentials

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use lapin::uri::AMQPUri;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::background;
use crate::credentials::{CredentialsSource, Secret};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::{guarded, lock, text};
use crate::period;

/// Credentials that are valid for no time at all are renewed as soon as this.
const SOONEST: Duration = Duration::from_secs(1);
/// After a failure the source is not asked again for this long, so that the connections of a client
/// share its answer.
const SHARED_FAILURE: Duration = Duration::from_secs(1);

/// The credentials of all connections of a client.
#[derive(Debug)]
pub(crate) struct Identity {
    source: CredentialsSource,
    timeout: Duration,
    asked: Mutex<Asked>,
    /// The last failure of the source, unless it has answered since then.
    failure: StdMutex<Option<Failure>>,
}

/// Credentials, and when the source returned them.
#[derive(Debug)]
pub(crate) struct Held {
    secret: Secret,
    since: Instant,
}

#[derive(Debug, Default)]
struct Asked {
    held: Option<Arc<Held>>,
    /// A call of the source that has not ended.
    running: Option<Running>,
    failed: Option<(Instant, Error)>,
}

type Running = JoinHandle<Result<Held, String>>;

#[derive(Debug)]
struct Failure {
    error: Error,
    /// The end of its last answer; `None` if there is none, or it does not expire.
    expires: Option<Instant>,
}

impl Held {
    /// When to renew them: after two thirds of the time for which they are valid.
    pub(crate) fn renewal(&self) -> Option<Instant> {
        let valid = self.secret.valid_for()?;
        self.since.checked_add((valid / 3 * 2).max(SOONEST))
    }

    fn expires(&self) -> Option<Instant> {
        self.secret.valid_for().and_then(|valid| self.since.checked_add(valid))
    }

    /// Whether a new connection may use them without asking again.
    fn is_fresh(&self, now: Instant) -> bool {
        self.renewal().is_some_and(|renewal| now < renewal)
    }

    /// The URI of this node with these credentials.
    pub(crate) fn log_in(&self, node: &AMQPUri) -> AMQPUri {
        let mut node = node.clone();
        let user = &mut node.authority.userinfo;
        self.secret.user().clone_into(&mut user.username);
        self.secret.text().clone_into(&mut user.password);
        node
    }

    /// Whether both name the same user, which an open connection cannot change. The user of a token
    /// is not known: two tokens count as one user.
    pub(crate) fn has_user_of(&self, other: &Self) -> bool {
        self.secret.user() == other.secret.user()
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl Identity {
    /// `timeout` limits each call of the source.
    pub(crate) fn new(source: CredentialsSource, timeout: Duration) -> Self {
        let (asked, failure) = (Mutex::default(), StdMutex::default());
        Self { source, timeout, asked, failure }
    }

    /// The credentials for a new connection. The source is asked, unless less than two thirds of the
    /// validity of its last answer have passed.
    pub(crate) async fn fresh(&self) -> Result<Arc<Held>> {
        let mut asked = self.asked.lock().await;
        match &asked.held {
            Some(held) if held.is_fresh(Instant::now()) => Ok(Arc::clone(held)),
            _ => self.ask(&mut asked).await,
        }
    }

    /// The last answer of the source, however old. It is asked if there is none.
    #[cfg(feature = "management")]
    pub(crate) async fn current(&self) -> Result<Arc<Held>> {
        let mut asked = self.asked.lock().await;
        match &asked.held {
            Some(held) => Ok(Arc::clone(held)),
            None => self.ask(&mut asked).await,
        }
    }

    /// Credentials that replace these: an answer that another connection has got, or a new one.
    pub(crate) async fn newer(&self, than: &Arc<Held>) -> Result<Arc<Held>> {
        let mut asked = self.asked.lock().await;
        let newer = asked.held.as_ref().filter(|held| !Arc::ptr_eq(held, than));
        match newer {
            Some(newer) if newer.is_fresh(Instant::now()) => Ok(Arc::clone(newer)),
            _ => self.ask(&mut asked).await,
        }
    }

    /// The broker has refused these credentials: the next connection asks for others.
    pub(crate) async fn refused(&self, held: &Arc<Held>) {
        let mut asked = self.asked.lock().await;
        asked.held.take_if(|current| Arc::ptr_eq(current, held));
    }

    /// The error of the source, if it failed, with the time that is left of its last answer.
    pub(crate) fn trouble(&self) -> Option<Error> {
        let failure = lock(&self.failure);
        let Failure { error, expires } = failure.as_ref()?;
        let told = match expires {
            Some(expires) => format!("{error}; {}", left(*expires, Instant::now())),
            None => error.to_string(),
        };
        Some(Error::new(error.kind(), told).with_source(error.clone()))
    }

    async fn ask(&self, asked: &mut Asked) -> Result<Arc<Held>> {
        if let Some((since, error)) = &asked.failed
            && since.elapsed() < SHARED_FAILURE
        {
            return Err(error.clone());
        }
        match self.answer(&mut asked.running).await {
            Ok(held) => {
                let held = Arc::new(held);
                asked.held = Some(Arc::clone(&held));
                asked.failed = None;
                *lock(&self.failure) = None;
                Ok(held)
            }
            Err(problem) => {
                let error = Error::new(
                    ErrorKind::Connection,
                    format!(
                        "the source of the client's credentials (`ClientBuilder::credentials`) \
                         failed: {problem}"
                    ),
                );
                asked.failed = Some((Instant::now(), error.clone()));
                let expires = asked.held.as_ref().and_then(|held| held.expires());
                *lock(&self.failure) = Some(Failure { error: error.clone(), expires });
                Err(error)
            }
        }
    }

    /// The answer of the source. A call that blocks its thread continues after the timeout, and no
    /// other one begins before it ends.
    async fn answer(&self, running: &mut Option<Running>) -> Result<Held, String> {
        let call = match running {
            Some(call) => call,
            None => running.insert(self.call()?),
        };
        let late = || format!("it did not answer within {}", period::format(self.timeout));
        // A future ends at its own timeout, a moment before this one.
        let limit = self.timeout.saturating_add(SHARED_FAILURE);
        let ended = timeout(limit, call).await.map_err(|_| late())?;
        *running = None;
        ended.unwrap_or_else(|_| Err("this program is shutting down".to_owned()))
    }

    fn call(&self) -> Result<Running, String> {
        let (source, limit) = (self.source.clone(), self.timeout);
        let call = move || {
            let since = Instant::now();
            // The error becomes text inside the guard, since its code may panic, too.
            let asked = guarded(|| {
                let runtime = background::handle().map_err(|error| error.to_string())?;
                let answer = runtime.block_on(async { timeout(limit, source.secret()).await });
                match answer {
                    Ok(answer) => answer.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("it did not answer within {}", period::format(limit))),
                }
            });
            let secret = asked.unwrap_or_else(|panic| Err(text(panic)))?;
            Ok(Held { secret, since })
        };
        background::spawn_blocking(call).map_err(|_| "the system has no thread for it".to_owned())
    }
}

/// How long credentials are still valid, for people.
fn left(expires: Instant, now: Instant) -> String {
    if expires > now {
        format!("the ones in use expire in {}", rounded(expires - now))
    } else {
        format!("the ones in use expired {} ago", rounded(now - expires))
    }
}

/// In whole seconds.
fn rounded(time: Duration) -> String {
    period::format(Duration::from_secs(time.as_secs()))
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
