//! Ensuring the topology: afterwards it exists, or an error says why not.
//!
//! Users without the permission to configure can use what another user has declared.

use std::time::Duration;

use super::declaration::Declaration;
use super::declare::{declare_all, declare_place};
use super::lookup::{Seen, look};
use super::plan::Topology;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::is_forbidden;

/// The wait after declaring new quorum queues. A broker that is killed earlier may not be able to
/// recover them.
pub(crate) const NEW_QUEUE_WAIT: Duration = Duration::from_secs(1);

/// How long to wait before a deleted queue is declared again. If a queue of the same name is
/// declared within some 10 ms, RabbitMQ 3.10 does not tell its consumers, and their deliveries
/// never arrive (measured; 4.0 and 4.3 do tell them).
const DELETED_QUEUE_WAIT: Duration = Duration::from_secs(1);

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
    let created = match look(up, &topology.places()).await? {
        Seen::All => false,
        Seen::Missing(_) => true,
        Seen::Forbidden(_) => return add_missing(up, topology).await,
    };
    match declare_all(up, topology.declarations(), tell).await {
        Err(error) if is_forbidden(&error) => add_missing(up, topology).await,
        declared => declared.map(|()| created),
    }
}

/// [`apply`], for parts that may have been deleted a moment ago.
pub(crate) async fn apply_again(up: &ConnectionEpoch, topology: &Topology) -> Result<bool> {
    if let Seen::Missing(_) = look(up, &topology.places()).await? {
        tokio::time::sleep(DELETED_QUEUE_WAIT).await;
    }
    apply(up, topology).await
}

/// Declares the missing parts only. True if there were any.
///
/// # Errors
///
/// Missing parts that may not be declared, by name; a lost connection.
async fn add_missing(up: &ConnectionEpoch, topology: &Topology) -> Result<bool> {
    let made = add_places(up, &topology.places()).await?;
    let is_needed = |binding: &&Declaration| {
        let (Declaration::Binding { exchange: from, queue: to, .. }
        | Declaration::ExchangeBinding { from, to, .. }) = binding
        else {
            return false;
        };
        made.contains(&from.as_str()) || made.contains(&to.as_str())
    };
    let bindings = topology.declarations().iter().filter(|declaration| !declaration.is_place());
    let (needed, others): (Vec<_>, Vec<_>) = bindings.partition(is_needed);
    declare_all(up, needed, || ()).await?;
    // Bindings of existing parts are declared too, if this user may: that needs no permission to
    // configure, and changes nothing for existing ones.
    match declare_all(up, others, || ()).await {
        Err(error) if !is_forbidden(&error) => Err(error),
        _ => Ok(!made.is_empty()),
    }
}

/// Declares the missing exchanges and queues, and returns their names.
async fn add_places<'t>(
    up: &ConnectionEpoch,
    mut places: &[&'t Declaration],
) -> Result<Vec<&'t str>> {
    let (mut made, mut refused, mut refusal) = (Vec::new(), Vec::new(), None);
    // Each missing part costs a channel number.
    while refused.len() < NAMED {
        let place = match look(up, places).await? {
            Seen::All => break,
            // A part that this user may not look for is assumed to exist. Publishing reports a
            // missing exchange.
            Seen::Forbidden(place) => place,
            Seen::Missing(place) => {
                let missing = places[place];
                match declare_place(up, missing).await {
                    Ok(()) => made.push(missing.name()),
                    Err(error) if is_forbidden(&error) => {
                        refused.push(missing);
                        refusal = Some(error);
                    }
                    Err(error) => return Err(error),
                }
                place
            }
        };
        places = &places[place + 1..];
    }
    refusal.map_or(Ok(made), |refusal| Err(cannot_declare(&refused).with_source(refusal)))
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
