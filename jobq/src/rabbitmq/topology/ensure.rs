//! Ensuring the topology: afterwards it exists, or an error says why not.
//!
//! Users without the permission to configure can use what another user has declared.

use std::time::Duration;

use futures_util::stream::{FuturesOrdered, TryStreamExt as _};
use lapin::Channel;

use super::declare::declare;
use super::lookup::{Seen, look};
use super::plan::{Declaration, Topology};
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::{ACCESS_REFUSED, refusal};

/// The wait after declaring new quorum queues. A broker that is killed earlier may not be able to
/// recover them.
pub(crate) const NEW_QUEUE_WAIT: Duration = Duration::from_secs(1);

/// How long to wait before a deleted queue is declared again. If a queue of the same name is
/// declared within some 10 ms, RabbitMQ 3.10 does not tell its consumers, and their deliveries
/// never arrive (measured; 4.0 and 4.3 do tell them).
const DELETED_QUEUE_WAIT: Duration = Duration::from_secs(1);

/// How many declarations are sent before the first of them is answered.
const IN_FLIGHT: usize = 64;

/// The most missing names in an error.
const NAMED: usize = 8;

/// Ensures that this topology exists. True if some of it was missing.
///
/// Existing parts are declared as well, so that the broker compares them. Users without the
/// permission to configure declare the missing parts only.
///
/// # Errors
///
/// A conflict with existing parts, a refusal, a lost connection.
pub(crate) async fn apply(up: &ConnectionEpoch, topology: &Topology) -> Result<bool> {
    apply_telling(up, topology, || ()).await
}

/// [`apply`], with a call of `tell` for each answer to a declaration.
pub(crate) async fn apply_telling(
    up: &ConnectionEpoch,
    topology: &Topology,
    tell: impl FnMut(),
) -> Result<bool> {
    let mut channel = open(up).await?;
    let created = match look(up, &channel, &topology.places()).await? {
        Seen::All => false,
        Seen::Missing(_) => true,
        Seen::Forbidden(_) => return add_missing(up, topology).await,
    };
    if created {
        channel = open(up).await?;
    }
    let _question = up.questions.ask(channel.id());
    match declare_all(&channel, topology, tell).await {
        Err(error) if is_forbidden(&error) => add_missing(up, topology).await,
        declared => declared.map(|()| created),
    }
}

/// [`apply`], for parts that may have been deleted a moment ago.
pub(crate) async fn apply_again(up: &ConnectionEpoch, topology: &Topology) -> Result<bool> {
    let channel = open(up).await?;
    match look(up, &channel, &topology.places()).await? {
        Seen::Missing(_) => tokio::time::sleep(DELETED_QUEUE_WAIT).await,
        Seen::All | Seen::Forbidden(_) => {}
    }
    apply(up, topology).await
}

/// Declares everything in order, with many declarations in flight. There are hundreds of them, and
/// nothing is published after a lost connection until all are answered.
async fn declare_all(channel: &Channel, topology: &Topology, mut tell: impl FnMut()) -> Result<()> {
    let mut sent = FuturesOrdered::new();
    for declaration in topology.declarations() {
        if sent.len() == IN_FLIGHT && sent.try_next().await?.is_some() {
            tell();
        }
        sent.push_back(declare(channel, declaration));
    }
    while sent.try_next().await?.is_some() {
        tell();
    }
    Ok(())
}

/// Whether the broker refused for want of a permission.
pub(crate) fn is_forbidden(error: &Error) -> bool {
    refusal(error) == Some(ACCESS_REFUSED)
}

/// Declares the missing parts only. True if there were any.
///
/// # Errors
///
/// Missing parts that may not be declared, by name; a lost connection.
async fn add_missing(up: &ConnectionEpoch, topology: &Topology) -> Result<bool> {
    let mut missing =
        Missing { channel: open(up).await?, up, made: Vec::new(), refused: Vec::new() };
    missing.places(topology).await?;
    missing.bindings(topology).await?;
    Ok(!missing.made.is_empty())
}

struct Missing<'t> {
    channel: Channel,
    up: &'t ConnectionEpoch,
    /// Parts that were missing and were declared.
    made: Vec<&'t str>,
    /// Missing parts that may not be declared.
    refused: Vec<&'t Declaration>,
}

impl<'t> Missing<'t> {
    async fn places(&mut self, topology: &'t Topology) -> Result<()> {
        let places = topology.places();
        let mut places = places.as_slice();
        let mut refusal = None;
        // Each missing part costs a channel number.
        while self.refused.len() < NAMED {
            let place = match look(self.up, &self.channel, places).await? {
                Seen::All => break,
                Seen::Forbidden(place) => place,
                Seen::Missing(place) => {
                    self.channel = open(self.up).await?;
                    let missing = places[place];
                    match self.declare(missing).await {
                        Ok(()) => self.made.push(missing.name()),
                        Err(error) if is_forbidden(&error) => {
                            self.refused.push(missing);
                            refusal = Some(error);
                        }
                        Err(error) => return Err(error),
                    }
                    place
                }
            };
            // A part that this user may not look for is assumed to exist. Publishing reports a
            // missing exchange.
            places = &places[place + 1..];
            self.channel = open(self.up).await?;
        }
        refusal.map_or(Ok(()), |refusal| Err(cannot_declare(&self.refused).with_source(refusal)))
    }

    async fn declare(&self, declaration: &Declaration) -> Result<()> {
        let _question = self.up.questions.ask(self.channel.id());
        declare(&self.channel, declaration).await
    }

    /// Bindings of existing parts are declared too, if this user may: that needs no permission to
    /// configure, and changes nothing for existing ones.
    async fn bindings(&mut self, topology: &'t Topology) -> Result<()> {
        let mut may_bind = true;
        for binding in topology.declarations() {
            let (Declaration::Binding { exchange: from, queue: to, .. }
            | Declaration::ExchangeBinding { from, to, .. }) = binding
            else {
                continue;
            };
            let is_needed = self.made.iter().any(|made| made == from || made == to);
            if !is_needed && !may_bind {
                continue;
            }
            match self.declare(binding).await {
                Err(error) if is_forbidden(&error) && !is_needed => {
                    may_bind = false;
                    self.channel = open(self.up).await?;
                }
                done => done?,
            }
        }
        Ok(())
    }
}

/// The error of missing parts that may not be declared.
fn cannot_declare(refused: &[&Declaration]) -> Error {
    let names: Vec<_> = refused.iter().map(|place| place.title()).collect();
    let more = if names.len() < NAMED { "" } else { ", and possibly more" };
    let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    Error::new(
        ErrorKind::Refused,
        format!(
            "{}{more} {is} not on the broker, and this user may not declare {it}; run \
             `Client::declare` or a pool once as a user who may, or grant this user configure \
             permission on the namespace's queues and exchanges (`rabbitmqctl set_permissions`)",
            names.join(", ")
        ),
    )
}
