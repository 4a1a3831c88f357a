use std::time::Duration;

use super::Client;
use crate::engine::EngineOptions;
use crate::error::{Error, Result};

/// The settings of a [`Client`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let client = jobq::Client::builder("sqlite::memory:").namespace("shop").connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "call `.connect().await`"]
pub struct ClientBuilder {
    url: String,
    options: EngineOptions,
}

/// The file of a program that is told no URL.
const DEFAULT_FILE: &str = "jobq.db";

impl ClientBuilder {
    pub(super) fn new(url: &str) -> Self {
        let options = EngineOptions {
            namespace: "jobq".to_owned(),
            connection_name: program(),
            timeout: Duration::from_secs(30),
        };
        Self { url: url.to_owned(), options }
    }

    /// A builder for the URL in the environment variable `JOBQ_URL`, or, if it is not
    /// set or empty, for `sqlite://jobq.db`.
    ///
    /// # Errors
    ///
    /// A variable that is no UTF-8.
    pub fn from_env() -> Result<Self> {
        match std::env::var("JOBQ_URL") {
            Ok(url) if !url.is_empty() => Ok(Self::new(&url)),
            Ok(_) | Err(std::env::VarError::NotPresent) => {
                let path = std::path::absolute(DEFAULT_FILE).unwrap_or(DEFAULT_FILE.into());
                tracing::info!(path = %path.display(), "JOBQ_URL is not set: jobs are kept in a file");
                Ok(Self::new(&format!("sqlite://{DEFAULT_FILE}")))
            }
            Err(source) => Err(Error::invalid(
                "the environment variable JOBQ_URL is no UTF-8; set it to a URL such as \
                 amqp://localhost or sqlite://jobs.db",
            )
            .because(source)),
        }
    }

    /// Keeps the queues of this client apart from those of other namespaces on the same
    /// broker or file: `[a-z0-9_-]{1,32}`. Defaults to `jobq`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = namespace.into();
        self
    }

    /// The name under which the broker lists the connections. Defaults to the name of
    /// the program and its process id. The embedded engine has no use for it.
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.options.connection_name = name.into();
        self
    }

    /// How long a call waits for the broker's answer, or for other processes to let go
    /// of the file, before it fails with a [timeout](crate::ErrorKind::Timeout).
    /// Defaults to 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`]; an invalid namespace; a timeout of zero.
    pub async fn connect(self) -> Result<Client> {
        check_namespace(&self.options.namespace)?;
        if self.options.timeout.is_zero() {
            return Err(Error::invalid("the client's timeout is zero; every call would fail"));
        }
        let namespace = self.options.namespace.clone();
        let engine = super::open::open(&self.url, self.options).await?;
        Ok(Client::on_engine(engine, namespace))
    }
}

impl std::fmt::Debug for ClientBuilder {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The name of the running program and its process id.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem()).and_then(|name| name.to_str());
    format!("{} {}", name.unwrap_or("jobq"), std::process::id())
}

fn check_namespace(namespace: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if (1..=32).contains(&namespace.len()) && namespace.chars().all(allowed) {
        return Ok(());
    }
    let shown: String = namespace.chars().take(64).collect();
    Err(Error::invalid(format!("`{shown}` is no namespace; use 1 to 32 of a-z 0-9 _ -")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_follow_the_rule() {
        for good in ["jobq", "a", "shop-2_x", &"n".repeat(32)] {
            assert!(check_namespace(good).is_ok(), "{good}");
        }
        for bad in ["", "Shop", "a.b", "a:b", "ü", &"n".repeat(33)] {
            assert!(check_namespace(bad).unwrap_err().is_invalid(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let builder = ClientBuilder::new("amqp://ann:secret@localhost");
        assert!(!format!("{builder:?}").contains("secret"));
    }
}
