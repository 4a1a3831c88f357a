use std::time::Duration;

use super::{Certificates, ManagementUrl};
use crate::clock::Clock;
use crate::credentials::CredentialsSource;

/// The options of an engine, apart from its URL.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The namespace of the client's queues.
    pub namespace: String,
    /// The name of the connections in the broker's list.
    pub connection_name: String,
    /// The timeout for answers of the broker or the file.
    pub timeout: Duration,
    /// The clock of enqueueing, of due times, and of failures.
    pub clock: Clock,
    /// The trusted and the client's own certificates. An engine without TLS refuses them.
    pub certificates: Certificates,
    /// The source of the credentials, unless they are those of the URL. An engine without users
    /// refuses it.
    pub credentials: Option<CredentialsSource>,
    /// The URL of the broker's management API, if it may be used. An engine that has none refuses
    /// it.
    pub management: Option<ManagementUrl>,
    /// Whether a store keeps the schema that it has, also where jobs are enqueued or taken. An engine
    /// without schemas ignores it.
    pub keeps_schema: bool,
    /// How long calls wait for a lost connection before they fail; as long as their timeout if
    /// `None`. An engine without connections ignores it.
    pub fail_fast_after: Option<Duration>,
    /// Whether opening the engine does not wait for the server; calls wait for it instead.
    pub is_lazy: bool,
}
