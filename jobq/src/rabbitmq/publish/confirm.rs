//! One message on a channel in confirm mode: every publish is sent and confirmed here.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation};

use super::error;
use crate::background;
use crate::error::{Error, Result};
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::message::properties::Message;
use crate::rabbitmq::topology::routing::Route;

/// Opens a channel in confirm mode.
pub(crate) async fn open_confirming(up: &ConnectionEpoch) -> Result<Channel> {
    let channel = open(up).await?;
    let doing = "asking for confirms";
    let confirming = async {
        let confirming = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirming.map_err(|error| failure(doing, error))
    };
    up.answer(doing, confirming).await?;
    Ok(channel)
}

/// Sends a message by this route and awaits the confirm. `lapin` queues its frames at the first poll.
pub(crate) async fn send(
    channel: &Channel,
    route: &Route,
    message: &Message,
    mandatory: bool,
) -> lapin::Result<Confirmation> {
    let Message { properties, payload, .. } = message;
    let (Route { exchange, key }, properties) = (route.clone(), properties.clone());
    let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
    channel.basic_publish(exchange, key, options, payload, properties).await?.await
}

/// Sends a message on a channel of its own, awaits the confirm and closes the channel. Any error of
/// the channel concerns this message.
///
/// # Errors
///
/// A channel that cannot be opened. The inner result is the broker's answer.
pub(crate) async fn send_alone(
    up: &ConnectionEpoch,
    message: &Message,
    mandatory: bool,
) -> Result<lapin::Result<Confirmation>> {
    let channel = open_confirming(up).await?;
    let answer = send(&channel, &message.route(), message, mandatory).await;
    // The answer does not wait for the end of the channel: the caller's time may be up by then.
    background::spawn(async move { channel.close(200, "published".into()).await });
    Ok(answer)
}

/// Reads a confirm: `Ok` where the broker has stored the message.
pub(crate) fn stored(message: &Message, confirmation: &Confirmation) -> Result<()> {
    match confirmation {
        Confirmation::Ack(_) => Ok(()),
        Confirmation::Nack(_) => Err(error::nacked(message)),
        Confirmation::NotRequested => Err(error::unconfirmed(message)),
    }
}

/// Reads an error of a channel that carried this message alone.
pub(crate) fn not_stored(message: &Message, error: lapin::Error) -> Error {
    if error.is_amqp_soft_error() {
        error::refused(message, error)
    } else {
        error::lost(message).with_source(error)
    }
}
