//! Making sure that what jobq needs is there: it exists afterwards, or an error says why not.
//!
//! Who may not configure the broker can use what another user has declared.

use std::time::Duration;

use futures_util::stream::{FuturesOrdered, TryStreamExt as _};
use lapin::Channel;

use super::declarations::{Declaration, Topology};
use super::declare::declare;
use super::passive::{Seen, look};
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::errors::{ACCESS_REFUSED, refusal};

/// A broker that is killed in the first moments of a quorum queue's life may not be able
/// to recover it, so nothing is sent before they are over.
pub(crate) const FIRST_MOMENTS: Duration = Duration::from_secs(1);

/// How long a queue that was deleted is left alone. RabbitMQ 3.10 that gets another one of its
/// name within some 10 ms does not tell its consumers, and delivers to them what never arrives
/// (measured; 4.0 and 4.3 do tell them).
const DELETED: Duration = Duration::from_secs(1);

/// How many declarations are sent before the first of them is answered.
const IN_FLIGHT: usize = 64;

/// How many missing things an error names.
const NAMED: usize = 8;

/// Makes sure that all of this is there, and says whether some of it was missing.
///
/// What is there is declared as well, since the broker says then whether it is as it should
/// be. A user who may not declare it needs no permission to configure: only what is missing is
/// declared then.
///
/// # Errors
///
/// A conflict with what exists, a refusal, a lost connection.
pub(crate) async fn apply(up: &Up, topology: &Topology) -> Result<bool> {
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
    match declare_all(&channel, topology).await {
        Err(error) if is_forbidden(&error) => add_missing(up, topology).await,
        declared => declared.map(|()| created),
    }
}

/// [`apply`], for what was there and may have been deleted a moment ago.
pub(crate) async fn apply_again(up: &Up, topology: &Topology) -> Result<bool> {
    let channel = open(up).await?;
    match look(up, &channel, &topology.places()).await? {
        Seen::Missing(_) => tokio::time::sleep(DELETED).await,
        Seen::All | Seen::Forbidden(_) => {}
    }
    apply(up, topology).await
}

/// There are hundreds of declarations, and until all are answered nothing is published
/// after a lost connection; so many are sent before the first answer comes. The broker
/// does them in their order.
async fn declare_all(channel: &Channel, topology: &Topology) -> Result<()> {
    let mut sent = FuturesOrdered::new();
    for declaration in topology.declarations() {
        if sent.len() == IN_FLIGHT {
            sent.try_next().await?;
        }
        sent.push_back(declare(channel, declaration));
    }
    while sent.try_next().await?.is_some() {}
    Ok(())
}

/// Whether the broker refused for want of a permission.
pub(crate) fn is_forbidden(error: &Error) -> bool {
    refusal(error) == Some(ACCESS_REFUSED)
}

/// Declares what of this is missing and nothing else, and says whether anything was.
///
/// # Errors
///
/// What is missing and may not be declared, by its name; a lost connection.
async fn add_missing(up: &Up, topology: &Topology) -> Result<bool> {
    let mut missing =
        Missing { channel: open(up).await?, up, made: Vec::new(), refused: Vec::new() };
    missing.places(topology).await?;
    missing.bindings(topology).await?;
    Ok(!missing.made.is_empty())
}

struct Missing<'t> {
    channel: Channel,
    up: &'t Up,
    /// What was missing and is there now.
    made: Vec<&'t str>,
    /// What is missing and may not be declared.
    refused: Vec<&'t Declaration>,
}

impl<'t> Missing<'t> {
    async fn places(&mut self, topology: &'t Topology) -> Result<()> {
        let places = topology.places();
        let mut places = places.as_slice();
        let mut refusal = None;
        // Each one that is missing costs a channel number.
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
            // What may not be asked for is taken to be there: who may only publish is told
            // of a missing exchange when something is published.
            places = &places[place + 1..];
            self.channel = open(self.up).await?;
        }
        refusal.map_or(Ok(()), |refusal| Err(cannot_declare(&self.refused).because(refusal)))
    }

    async fn declare(&self, declaration: &Declaration) -> Result<()> {
        let _question = self.up.questions.ask(self.channel.id());
        declare(&self.channel, declaration).await
    }

    /// A binding of what was there is made too, where this user may: it takes no permission to
    /// configure, and changes nothing where it is there.
    async fn bindings(&mut self, topology: &'t Topology) -> Result<()> {
        let mut may_bind = true;
        for binding in topology.declarations() {
            let (Declaration::Binding { exchange: from, queue: to, .. }
            | Declaration::Passage { from, to, .. }) = binding
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

/// The error of what is missing and may not be declared.
fn cannot_declare(refused: &[&Declaration]) -> Error {
    let names: Vec<_> = refused.iter().map(|place| place.title()).collect();
    let more = if names.len() < NAMED { "" } else { ", and maybe more" };
    let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    Error::new(
        ErrorKind::Refused,
        format!(
            "{}{more} {is} not on the broker, and this user may not declare {it}; run \
             `Client::declare` or a pool once as a user who may, or give this user the permission \
             to configure what has the namespace's name (`rabbitmqctl set_permissions`)",
            names.join(", ")
        ),
    )
}
