//! Opens the engine of a URL.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, EngineOptions, Migrated};
use crate::error::{Error, ErrorKind, Result};

/// The upper bound of the timeout: SQLite counts milliseconds in 31 bits.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// Opens the engine for the URL's scheme.
pub(crate) async fn open(url: &str, mut options: EngineOptions) -> Result<Arc<dyn Engine>> {
    options.timeout = options.timeout.min(LONGEST_TIMEOUT);
    match url.split(':').next() {
        Some("amqp" | "amqps") => rabbitmq(url, options).await,
        Some("sqlite") => sqlite(url, options).await,
        _ => Err(no_scheme()),
    }
}

/// Migrates the store of a URL to the newest schema.
pub(crate) async fn migrate(url: &str, mut options: EngineOptions) -> Result<Migrated> {
    options.timeout = options.timeout.min(LONGEST_TIMEOUT);
    match url.split(':').next() {
        Some("amqp" | "amqps") => Err(Error::new(
            ErrorKind::Unsupported,
            "only a job file has a schema to migrate, but this is the URL of a broker; use a URL \
             such as sqlite://jobs.db",
        )),
        Some("sqlite") => sqlite_migration(url, options).await,
        _ => Err(no_scheme()),
    }
}

/// The URL itself is not shown, since it may hold a password.
fn no_scheme() -> Error {
    Error::invalid(
        "the URL has none of the schemes amqp, amqps and sqlite; use a URL such as \
         amqp://localhost, sqlite://jobs.db or sqlite::memory:",
    )
}

#[cfg(feature = "rabbitmq")]
async fn rabbitmq(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    crate::rabbitmq::connect(url, options).await
}

#[cfg(not(feature = "rabbitmq"))]
#[allow(clippy::unused_async)] // the other version awaits
async fn rabbitmq(_: &str, _: EngineOptions) -> Result<Arc<dyn Engine>> {
    Err(without("amqp", "rabbitmq"))
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    crate::sqlite::open(url, options).await
}

#[cfg(not(feature = "sqlite"))]
#[allow(clippy::unused_async)] // the other version awaits
async fn sqlite(_: &str, _: EngineOptions) -> Result<Arc<dyn Engine>> {
    Err(without("sqlite", "sqlite"))
}

#[cfg(feature = "sqlite")]
async fn sqlite_migration(url: &str, options: EngineOptions) -> Result<Migrated> {
    crate::sqlite::migrate(url, &options).await
}

#[cfg(not(feature = "sqlite"))]
#[allow(clippy::unused_async)] // the other version awaits
async fn sqlite_migration(_: &str, _: EngineOptions) -> Result<Migrated> {
    Err(without("sqlite", "sqlite"))
}

#[cfg(not(all(feature = "rabbitmq", feature = "sqlite")))]
fn without(scheme: &str, feature: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "{scheme} URLs need jobq's feature `{feature}`, which this program was built without; \
             enable it in Cargo.toml"
        ),
    )
}
