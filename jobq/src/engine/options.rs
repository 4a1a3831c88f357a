use std::time::Duration;

use super::{Certificates, ManagementUrl};

/// What an engine needs to know beside its URL.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Keeps the queues of this client apart from those of other namespaces.
    pub namespace: String,
    /// The name under which the broker lists the connections.
    pub connection_name: String,
    /// How long to wait for an answer of the broker or the file.
    pub timeout: Duration,
    /// Who is trusted, and how the client shows who it is. An engine that has no use for
    /// them refuses them.
    pub certificates: Certificates,
    /// Where the broker's management API is, if it may be asked. An engine that has none
    /// refuses it.
    pub management: Option<ManagementUrl>,
    /// Whether opening the engine waits for no server: calls wait for it then.
    pub is_lazy: bool,
}
