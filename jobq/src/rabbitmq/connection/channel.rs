//! Opening a channel, or using one again.

use lapin::{Channel, ErrorKind as Lapin};

use super::epoch::Up;
use crate::error::Result;
use crate::rabbitmq::errors::failure;

/// A channel to ask questions on. Whoever has all answers [keeps](super::idle::Idle::keep) it in
/// [`Up::asking`].
pub(crate) async fn to_ask(up: &Up) -> Result<Channel> {
    match up.asking.take() {
        Some(channel) => Ok(channel),
        None => open(up).await,
    }
}

/// A new channel.
///
/// `lapin` never reuses the number of a channel that the broker has closed, and returns the old
/// error for it. There are some two thousand numbers, so the next one is tried, and the connection
/// is replaced when none is left.
pub(crate) async fn open(up: &Up) -> Result<Channel> {
    let doing = "opening a channel";
    let opening = async {
        let mut opened = up.connection.create_channel().await;
        while matches!(&opened, Err(error) if error.is_amqp_soft_error()) {
            opened = up.connection.create_channel().await;
        }
        if matches!(&opened, Err(error) if matches!(error.kind(), Lapin::ChannelsLimitReached)) {
            tracing::warn!("no channel is left on the connection; it is replaced");
            let _ = up.connection.close(200, "out of channels".into()).await;
        }
        opened.map_err(|error| failure(doing, error))
    };
    up.answer(doing, opening).await
}
