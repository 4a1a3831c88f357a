//! One channel that is consumed on, by as many consumers as its prefetch needs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, SelectAll};
use futures_util::{FutureExt, StreamExt};
use lapin::Channel;
use lapin::message::Delivery as Message;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};

use super::failure::failure;
use super::session::Session;
use crate::error::Result;

/// More consumers than this on one channel are replaced by one.
const MOST_CONSUMERS: usize = 8;

/// A stream that tells which consumer it is of, and of its end.
type Stream = Pin<Box<dyn futures_util::Stream<Item = (u32, Item)> + Send>>;

/// A message, or the end of a consumer, with the reason.
type Item = std::result::Result<Message, String>;

/// The broker counts the prefetch for each consumer, from the consumer's beginning. So
/// a raised prefetch is one more consumer, and only a lowered one begins anew: then
/// what is in hand comes on top until it is settled.
pub(crate) struct Live {
    pub(crate) session: Arc<Session>,
    queue: ShortString,
    streams: SelectAll<Stream>,
    /// The consumers that were not cancelled, with their prefetch.
    consumers: BTreeMap<u32, (ShortString, u16)>,
    next: u32,
    /// An end that was met and not told yet.
    over: Option<String>,
}

impl Live {
    pub(crate) fn new(session: Arc<Session>, queue: ShortString) -> Self {
        let (streams, consumers) = (SelectAll::new(), BTreeMap::new());
        Self { session, queue, streams, consumers, next: 0, over: None }
    }

    /// Consumes with this prefetch from now on.
    pub(crate) async fn set_prefetch(&mut self, prefetch: u16) -> Result<()> {
        let current: u16 = self.consumers.values().map(|(_, prefetch)| prefetch).sum();
        if prefetch > current && self.consumers.len() < MOST_CONSUMERS {
            return self.consume(prefetch - current).await;
        }
        if prefetch != current {
            self.cancel().await?;
            self.consume(prefetch).await?;
        }
        Ok(())
    }

    async fn consume(&mut self, prefetch: u16) -> Result<()> {
        let consumer = consume(&self.session.channel, self.queue.clone(), prefetch).await?;
        let (id, tag) = (self.next, consumer.tag());
        self.next += 1;
        self.consumers.insert(id, (tag, prefetch));
        let end = stream::once(async { Err("it was cancelled".to_owned()) });
        let items = consumer.map(|item| item.map_err(|error| error.to_string()));
        self.streams.push(Box::pin(items.chain(end).map(move |item| (id, item))));
        Ok(())
    }

    /// Ends the consumers. What they were sent is still to come.
    async fn cancel(&mut self) -> Result<()> {
        while let Some((_, (tag, _))) = self.consumers.pop_first() {
            let options = BasicCancelOptions::default();
            let cancelled = self.session.channel.basic_cancel(tag, options).await;
            cancelled.map_err(|error| failure("cancelling a consumer", error))?;
        }
        Ok(())
    }

    /// The next message, or why there is none any more.
    pub(crate) async fn next(&mut self) -> Item {
        if let Some(reason) = self.over.take() {
            return Err(reason);
        }
        loop {
            match self.streams.next().await {
                Some((_, Ok(message))) => return Ok(message),
                Some((id, Err(reason))) if self.consumers.contains_key(&id) => return Err(reason),
                Some((_, Err(_))) => (),
                None => return Err("there is no consumer".to_owned()),
            }
        }
    }

    /// The next message, if it is there. An end is left for [`next`](Self::next).
    pub(crate) fn ready(&mut self) -> Option<Message> {
        match self.next().now_or_never()? {
            Ok(message) => Some(message),
            Err(reason) => {
                self.over = Some(reason);
                None
            }
        }
    }

    /// Ends the consumers and gives back what they were sent.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.cancel().await?;
        // All that will come is there: the broker's answer came after it.
        while let Some(Some((_, item))) = self.streams.next().now_or_never() {
            if let Ok(message) = item {
                self.session.give_back(message.delivery_tag);
            }
        }
        Ok(())
    }
}

async fn consume(channel: &Channel, queue: ShortString, prefetch: u16) -> Result<lapin::Consumer> {
    let doing = format!("consuming queue `{queue}`");
    // Never global: quorum queues refuse it, and the connection ends.
    let limited = channel.basic_qos(prefetch, BasicQosOptions::default()).await;
    limited.map_err(|error| failure(&doing, error))?;
    let (tag, options) = (ShortString::default(), BasicConsumeOptions::default());
    let consumer = channel.basic_consume(queue, tag, options, FieldTable::default()).await;
    consumer.map_err(|error| failure(&doing, error))
}
