//! Credentials that change while a program runs.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::job::BoxError;

/// A source of credentials that change while the program runs: OAuth 2.0 tokens, or users and
/// passwords that a vault rotates. [`ClientBuilder::credentials`] sets it.
///
/// A function or closure that returns a future is a source, too.
///
/// ```
/// use std::time::Duration;
///
/// use jobq::{BoxError, Client, Credentials, Secret};
///
/// struct Vault;
///
/// impl Credentials for Vault {
///     async fn secret(&self) -> Result<Secret, BoxError> {
///         // A request to the vault.
///         let (user, password, lease) = ("shop-7", "secret", Duration::from_secs(3600));
///         Ok(Secret::password(user, password).expires_in(lease))
///     }
/// }
///
/// # async fn example() -> jobq::Result<()> {
/// let client = Client::builder("amqps://mq.example.com").credentials(Vault).connect().await?;
/// # Ok(())
/// # }
/// ```
///
/// [`ClientBuilder::credentials`]: crate::ClientBuilder::credentials
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of credentials",
    label = "not a `Fn()` that returns a future of exactly `Result<Secret, BoxError>`",
    note = "jobq asks the source whenever it needs new ones: `.credentials(|| async {{ \
            Ok(Secret::token(fetch().await?)) }})`, or a type that implements `Credentials`",
    note = "a user and a password that stay the same go into the URL: `amqp://user:password@host`"
)]
pub trait Credentials: Send + Sync + 'static {
    /// The credentials that are valid now.
    ///
    /// jobq calls it on a thread of its own, so it may block, and never twice at a time. Timers and
    /// sockets of tokio work in it. A panic counts as an error. A future that takes longer than the
    /// client's [timeout](crate::ClientBuilder::timeout) is dropped.
    fn secret(&self) -> impl Future<Output = Result<Secret, BoxError>> + Send;
}

impl<C: Credentials> Credentials for Arc<C> {
    fn secret(&self) -> impl Future<Output = Result<Secret, BoxError>> + Send {
        (**self).secret()
    }
}

#[diagnostic::do_not_recommend]
impl<F, Fut> Credentials for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Secret, BoxError>> + Send,
{
    fn secret(&self) -> impl Future<Output = Result<Secret, BoxError>> + Send {
        self()
    }
}

/// A token, or a user and a password, and how long they are valid. The `Debug` form shows neither
/// the password nor the token.
///
/// ```
/// use std::time::Duration;
///
/// use jobq::Secret;
///
/// let secret = Secret::token("eyJhbGciOi...").expires_in(Duration::from_secs(300));
/// assert!(!format!("{secret:?}").contains("eyJ"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    user: String,
    password: String,
    valid_for: Option<Duration>,
}

impl Secret {
    /// An access token of OAuth 2.0, for a broker with the plugin `rabbitmq_auth_backend_oauth2`.
    #[must_use]
    pub fn token(token: impl Into<String>) -> Self {
        Self::password(String::new(), token)
    }

    /// A user and a password.
    #[must_use]
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into(), valid_for: None }
    }

    /// Sets how long the credentials are valid from now on, such as the `expires_in` of a token
    /// response. jobq asks for new ones when two thirds of this time have passed. By default they
    /// count as valid until the broker refuses them, and jobq asks for each connection.
    #[must_use]
    pub fn expires_in(mut self, valid_for: Duration) -> Self {
        self.valid_for = Some(valid_for);
        self
    }
}

#[cfg(feature = "rabbitmq")]
impl Secret {
    /// The user; empty for a token.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The password or the token.
    pub(crate) fn text(&self) -> &str {
        &self.password
    }

    #[cfg(feature = "management")]
    pub(crate) fn is_token(&self) -> bool {
        self.user.is_empty()
    }

    pub(crate) fn valid_for(&self) -> Option<Duration> {
        self.valid_for
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Secret");
        shown.field("user", &self.user).field("valid_for", &self.valid_for).finish_non_exhaustive()
    }
}

/// A type-erased source. The `Debug` form shows nothing of it.
#[derive(Clone)]
#[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
pub struct CredentialsSource(Arc<dyn Source>);

impl CredentialsSource {
    pub(crate) fn new(credentials: impl Credentials) -> Self {
        Self(Arc::new(credentials))
    }

    #[cfg(feature = "rabbitmq")]
    pub(crate) fn secret(&self) -> Asking<'_> {
        self.0.ask()
    }
}

impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsSource(..)")
    }
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<Secret, BoxError>> + Send + 'a>>;

/// [`Credentials`] as a trait object.
trait Source: Send + Sync {
    #[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
    fn ask(&self) -> Asking<'_>;
}

impl<C: Credentials> Source for C {
    fn ask(&self) -> Asking<'_> {
        Box::pin(self.secret())
    }
}
