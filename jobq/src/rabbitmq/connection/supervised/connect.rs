//! Connecting to one of the nodes.

use std::sync::Arc;
use std::time::Duration;

use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};
use tokio::sync::watch;

use super::{CLOSE_TIMEOUT, State, Target, renewal};
use crate::error::{Error, ErrorKind, Result};
use crate::host;
use crate::rabbitmq::connection::address::host_and_port;
use crate::rabbitmq::connection::alert;
use crate::rabbitmq::connection::connect_error::{Unconnected, cannot_connect};
use crate::rabbitmq::connection::epoch::{ConnectionEpoch, Established};
use crate::rabbitmq::connection::identity::Held;
use crate::rabbitmq::connection::socket::{self, Handshake};
use crate::rabbitmq::lapin::log::{LogFilter, Questions};

/// Connects to one node after the other.
#[derive(Debug)]
pub(in crate::rabbitmq::connection) struct Connector {
    pub(super) target: Arc<Target>,
    /// The name of its connections.
    pub(super) name: String,
    /// The number of the node to try first.
    next: usize,
    /// How many nodes to try.
    tries: usize,
    /// The node of the last connection, for the log.
    pub(super) node: String,
}

impl Connector {
    /// Begins with any of the nodes.
    pub(in crate::rabbitmq::connection) fn new(target: Arc<Target>, name: String) -> Self {
        let tries = target.address.count();
        Self { next: fastrand::usize(..tries), tries, target, name, node: String::new() }
    }

    /// Tries this node alone.
    pub(in crate::rabbitmq::connection) fn to_node(
        target: Arc<Target>,
        name: String,
        node: usize,
    ) -> Self {
        Self { next: node, tries: 1, target, name, node: String::new() }
    }

    /// Tries each node once, starting after the node of the last connection: so the clients of a
    /// node that died reconnect at once. Each has so long to answer, or less.
    pub(in crate::rabbitmq::connection) async fn connect(
        &mut self,
        answer: Duration,
    ) -> Result<Established> {
        let target = Arc::clone(&self.target);
        let held = self.credentials().await?;
        let mut failures = Vec::new();
        for (number, node) in target.address.nodes_from(self.next).take(self.tries) {
            // The TLS future is large.
            match Box::pin(self.connect_to(number, node, held.as_ref(), answer)).await {
                Ok(connection) => {
                    self.next = number + 1;
                    self.node = host_and_port(node);
                    return Ok(connection);
                }
                Err(failure) => {
                    let (last, kind) = (failure.everywhere, failure.kind);
                    failures.push(failure);
                    // The login itself, not a vhost or a limit.
                    if last && kind == ErrorKind::Refused {
                        self.refused(held.as_ref()).await;
                    }
                    if last {
                        break;
                    }
                }
            }
        }
        Err(cannot_connect(&target.address, failures))
    }

    /// The credentials of a new connection; `None` for those of the URL.
    async fn credentials(&self) -> Result<Option<Arc<Held>>> {
        let Target { address, identity, .. } = &*self.target;
        match identity {
            None => Ok(None),
            Some(identity) => identity.fresh().await.map(Some).map_err(|error| {
                let told = format!("cannot connect to {address}: {error}");
                Error::new(error.kind(), told).with_source(error)
            }),
        }
    }

    /// The broker has refused these credentials.
    async fn refused(&self, held: Option<&Arc<Held>>) {
        if let (Some(identity), Some(held)) = (&self.target.identity, held) {
            identity.refused(held).await;
        }
    }

    /// Renews the credentials of this connection until it must be replaced, and returns the reason.
    pub(super) async fn renew(
        &self,
        up: &ConnectionEpoch,
        state: watch::Receiver<State>,
    ) -> String {
        let Target { identity, timeout, .. } = &*self.target;
        match (identity, &up.held) {
            (Some(identity), Some(held)) => {
                let held = Arc::clone(held);
                renewal::renew(&up.connection, &self.name, identity, held, *timeout, state).await
            }
            _ => std::future::pending().await,
        }
    }

    async fn connect_to(
        &self,
        number: usize,
        node: &AMQPUri,
        held: Option<&Arc<Held>>,
        answer: Duration,
    ) -> Result<Established, Unconnected> {
        let node = &held.map_or_else(|| node.clone(), |held| held.log_in(node));
        let Target { address, tls, timeout, .. } = &*self.target;
        let stated = node.query.connection_timeout.map(Duration::from_millis);
        let limit = stated.unwrap_or(*timeout).min(*timeout).min(answer);
        let because = |error| Unconnected::with_source(address, tls, node, error);
        let config = tls.config().map_err(|error| Unconnected::unprepared(node, &error))?;
        let config = Arc::new(config);
        let properties = properties(&self.name);
        // `lapin` opens the socket on a thread of its own. If nothing answers, that would go on for
        // minutes, even after the caller is dropped.
        let (of_socket, questions) = (Arc::clone(&config), Questions::default());
        let handshake = Handshake::default();
        let (giving_up, begun) = (handshake.guard(), handshake.clone());
        let filter = LogFilter::new(questions.clone());
        let of_thread = filter.clone();
        let open = async move |node: AMQPUri, _| {
            of_thread.filter_this_thread();
            let opening = socket::open(&node, &of_socket, &begun);
            let opened = tokio::time::timeout(limit, opening).await;
            Ok(opened.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))?)
        };
        let connecting =
            Connection::connector(node.clone(), socket::runtime(filter), open, properties);
        match tokio::time::timeout(limit, connecting).await {
            Ok(Err(error)) if address.is_tls() => {
                Err(because(alert::after_a_reset(error, node, &config).await))
            }
            Ok(Ok(connection)) => match Unconnected::too_narrow(node, &connection) {
                None => {
                    handshake.succeeded(giving_up);
                    let version = handshake.version();
                    let held = held.cloned();
                    Ok(Established { connection, questions, version, node: number, held })
                }
                Some(narrow) => {
                    let _ =
                        tokio::time::timeout(CLOSE_TIMEOUT, connection.close(200, "closed".into()))
                            .await;
                    Err(narrow)
                }
            },
            Ok(Err(error)) => Err(because(error)),
            Err(_) => Err(Unconnected::silent(host_and_port(node), limit)),
        }
    }
}

/// The properties of a connection, which the broker shows. The connection belongs to a client, whose
/// pools share it: the tags of the consumers name those.
fn properties(name: &str) -> ConnectionProperties {
    ConnectionProperties::default()
        .with_connection_name(name.into())
        .with_client_property("product".into(), "jobq".into())
        .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
        .with_client_property("host".into(), host::name().into())
        .with_client_property("pid".into(), std::process::id().to_string().into())
}
