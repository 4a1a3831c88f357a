//! One consumer of the broker, on a channel of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery as Message;
use lapin::options::BasicCancelOptions;
use lapin::types::ShortString;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::interruption::{Interruptions, Troubles};
use super::line::Line;
use super::place::Place;
use super::session::{Session, Sessions};
use super::valve::Valve;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::{self, Take};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::topology::ensure::apply_again;
use crate::rabbitmq::values::short;

/// A message, and the session that settles it.
pub(crate) type Taken = (Arc<Session>, Message);

/// Begins the consumers of a subscription.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) place: Place,
    /// The name of the consumers that the broker shows. Short where nobody looks for it: each message
    /// carries it, and the broker would generate one of 31 bytes.
    pub(crate) tag: ShortString,
    pub(crate) line: Line,
    pub(crate) valve: Option<Arc<dyn Valve>>,
    pub(crate) sessions: Sessions,
    pub(crate) interruptions: Interruptions,
    /// The log lines about all consumers of the engine.
    pub(crate) troubles: Arc<Troubles>,
}

/// A consumer.
pub(super) struct Live {
    up: Arc<ConnectionEpoch>,
    /// Ready when the connection has ended: `lapin` may not tell its consumers.
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
    pub(super) session: Arc<Session>,
    consumer: lapin::Consumer,
    pub(super) prefetch: u16,
    pub(super) since: Instant,
    /// The reason of an end that was seen and not yet returned.
    end: Option<String>,
}

/// What comes in the place of a message.
pub(super) enum Turn {
    /// The end of the consumer, with the broker's reason; none if the connection was lost.
    End(Option<String>),
    Change,
}

impl Opener {
    /// Begins a consumer as soon as there is a connection and the valve is open.
    pub(super) async fn open(&self, wait: Duration, prefetch: u16) -> Result<Live> {
        let link = self.line.readable(self.place).await?;
        let tell = |error: &Error| self.interruptions.begin(error);
        link.up_or_tell(tell).await?;
        sleep(wait).await;
        loop {
            let up = link.up_or_tell(tell).await?;
            let Some(valve) = &self.valve else {
                return up.answer("consuming", self.start(&up, prefetch)).await;
            };
            tokio::select! {
                biased;
                () = valve.recheck() => {}
                // The answer may take long, and the reason is another one from now on.
                () = link.lost(up.number) => continue,
            }
            if valve.is_shut() {
                self.interruptions.end();
                valve.opened().await;
            } else {
                return up.answer("consuming", self.start(&up, prefetch)).await;
            }
        }
    }

    /// Begins a consumer. Declares a deleted queue again if this client had declared it.
    pub(super) async fn start(&self, up: &Arc<ConnectionEpoch>, prefetch: u16) -> Result<Live> {
        match self.consume(up, prefetch).await {
            Err(error) if error.is_not_found() => {
                let known = self.sessions.context().declarer.known();
                let Some(wanted) = self.place.wanted(known) else {
                    let queue = self.place.queue();
                    let text = format!("queue `{queue}` does not exist; declare it first");
                    return Err(Error::new(ErrorKind::NotFound, text).with_source(error));
                };
                apply_again(up, &known.topology(&wanted)).await?;
                self.consume(up, prefetch).await
            }
            started => started,
        }
    }

    async fn consume(&self, up: &Arc<ConnectionEpoch>, prefetch: u16) -> Result<Live> {
        let channel = channel::open(up).await?;
        let names = self.sessions.context().names();
        let (queue, take) = (short(self.place.name(names))?, Take::Prefetch(prefetch));
        let consumer = channel::consume(&channel, queue, self.tag.clone(), take).await;
        let doing = || format!("consuming queue `{}`", self.place.name(names));
        let consumer = consumer.map_err(|error| failure(&doing(), error))?;
        Ok(Live {
            lost: Box::pin(up.over.clone().cancelled_owned()),
            session: self.sessions.begin(channel, up),
            up: Arc::clone(up),
            consumer,
            prefetch,
            since: Instant::now(),
            end: None,
        })
    }
}

impl Live {
    /// The next message. The prefetch is to be changed at this time, if at any.
    pub(super) async fn next(
        &mut self,
        change_at: Option<Instant>,
    ) -> std::result::Result<Message, Turn> {
        if let Some(reason) = self.end.take() {
            return Err(Turn::End(Some(reason)));
        }
        tokio::select! {
            biased;
            () = &mut self.lost => Err(Turn::End(None)),
            () = until(change_at) => Err(Turn::Change),
            item = self.consumer.next() => match item {
                Some(Ok(message)) => Ok(message),
                end => Err(Turn::End(Some(reason(end)))),
            },
        }
    }

    /// The next message, if it has arrived.
    pub(super) fn ready(&mut self) -> Option<Taken> {
        match self.consumer.next().now_or_never()? {
            Some(Ok(message)) => Some((Arc::clone(&self.session), message)),
            end => {
                self.end = Some(reason(end));
                None
            }
        }
    }

    /// Ends the consumer, and returns its untaken messages.
    pub(super) async fn cancel(mut self) -> Result<Vec<Taken>> {
        let (channel, tag) = (&self.session.channel, self.consumer.tag());
        let cancelled = channel.basic_cancel(tag, BasicCancelOptions::default()).await;
        cancelled.map_err(|error| failure("cancelling a consumer", error))?;
        // All messages have arrived: the broker's answer came after them.
        let mut left = Vec::new();
        while let Some(Some(Ok(message))) = self.consumer.next().now_or_never() {
            left.push((Arc::clone(&self.session), message));
        }
        Ok(left)
    }

    /// Ends the consumer, and begins one with another prefetch. Its untaken messages come first.
    pub(super) async fn replace(
        self: Box<Self>,
        opener: Arc<Opener>,
        prefetch: u16,
    ) -> (Result<Self>, Vec<Taken>) {
        let doing = "changing the prefetch";
        let (up, session) = (Arc::clone(&self.up), Arc::clone(&self.session));
        let left = match up.answer(doing, self.cancel()).await {
            Ok(left) => left,
            Err(error) => {
                session.abandon().await;
                return (Err(error), Vec::new());
            }
        };
        // Like the broker, it is counted no longer than it has deliveries.
        drop(session);
        (up.answer(doing, opener.start(&up, prefetch)).await, left)
    }
}

/// The reason for which a consumer has ended.
fn reason(end: Option<lapin::Result<Message>>) -> String {
    match end {
        Some(Err(error)) => error.to_string(),
        Some(Ok(_)) | None => "it was cancelled".to_owned(),
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
