//! The connections of a relay.

use std::fmt;
use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jobq::{Error, ErrorKind, Result};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, GenericClient, Row};

use crate::errors::failed;

/// How long the database may take to connect, unless the URL says it.
const CONNECT: Duration = Duration::from_secs(5);
/// One that takes rows, and one that counts them meanwhile.
const KEPT: usize = 2;

/// Connects, and keeps connections that are not in use.
pub(crate) struct Connections {
    config: Config,
    name: String,
    idle: Mutex<Vec<Client>>,
}

impl Connections {
    /// # Errors
    ///
    /// A URL that is none.
    pub(crate) fn new(url: &str) -> Result<Self> {
        jobq::setting::check("the URL of the database", url)?;
        let mut config = Config::from_str(url).map_err(|error| {
            // The error names a parameter and not its value.
            let text = format!(
                "the URL of the database cannot be read: {error}; expected one such as \
                 postgres://user:password@host:5432/database"
            );
            Error::new(ErrorKind::Invalid, text)
        })?;
        if cfg!(not(feature = "tls")) && config.get_ssl_mode() == SslMode::Require {
            let text = "the URL of the database asks for an encrypted connection (`sslmode=require`), \
                        which takes the feature `tls` of jobq-tokio-postgres";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("jobq relay");
        }
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        let name = format!("jobq_outbox of database {database} at {host}");
        Ok(Self { config, name, idle: Mutex::default() })
    }

    /// The table, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A connection, which is closed if it is not [given back](Self::give_back): the database rolls its
    /// transaction back then.
    pub(crate) async fn get(&self) -> Result<Client> {
        while let Some(client) = self.pop() {
            if !client.is_closed() {
                return Ok(client);
            }
        }
        let connecting = format!("connecting to the database for {}", self.name);
        self.connect().await.map_err(|error| failed(&connecting, error))
    }

    pub(crate) fn give_back(&self, client: Client) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(client);
        }
    }

    fn pop(&self) -> Option<Client> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    #[cfg(not(feature = "tls"))]
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    #[cfg(feature = "tls")]
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let tls = tokio_postgres_rustls::MakeRustlsConnect::new(crate::tls::config());
        let (client, connection) = self.config.connect(tls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Without the URL, which holds a password.
impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.name).finish()
    }
}

/// A parameter of a statement.
type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// The rows of a query. It has no name in the server, so that it may pass PgBouncer in transaction mode.
pub(crate) async fn query(
    client: &Client,
    doing: &str,
    query: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>> {
    client.query_typed(query, parameters).await.map_err(|error| failed(doing, error))
}

/// The number of rows that a statement affects.
pub(crate) async fn execute(
    client: &impl GenericClient,
    doing: &str,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<u64> {
    client.execute_typed(statement, parameters).await.map_err(|error| failed(doing, error))
}

/// Runs a statement without parameters.
pub(crate) async fn run(client: &Client, doing: &str, statement: &str) -> Result<()> {
    client.batch_execute(statement).await.map_err(|error| failed(doing, error))
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use super::*;

    #[test]
    fn encryption_takes_a_feature() {
        let error =
            Connections::new("postgres://ann:topsecret@db/shop?sslmode=require").unwrap_err();
        let text = error.to_string();
        assert!(error.is_unsupported() && text.contains("feature `tls`"), "{text}");
        assert!(!text.contains("topsecret"), "{text}");
        Connections::new("postgres://ann:topsecret@db/shop?sslmode=prefer").unwrap();
    }
}
