//! One channel that is consumed on, by one consumer after the other.

use std::future::poll_fn;
use std::sync::Arc;

use futures_util::FutureExt;
use lapin::Channel;
use lapin::message::Delivery as Message;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};

use super::merge::{Merge, Tagged};
use super::session::Session;
use crate::error::Result;
use crate::rabbitmq::errors::failure;

/// A message, or why there is none any more.
type Item = std::result::Result<Message, String>;

impl Tagged for lapin::Result<Message> {
    fn tag(&self) -> Option<u64> {
        self.as_ref().ok().map(|message| message.delivery_tag)
    }
}

/// Why a consumer has ended.
fn reason(end: Option<lapin::Result<Message>>) -> String {
    match end {
        Some(Err(error)) => error.to_string(),
        Some(Ok(_)) | None => "it was cancelled".to_owned(),
    }
}

/// The broker counts the prefetch for each consumer, from the consumer's beginning, so another
/// prefetch is another consumer. What the one before it was sent comes on top until it is settled,
/// which is for a moment where the prefetch is raised, since jobs are short then. Two consumers
/// side by side, each with a part of the prefetch, would give the broker more to do for each job
/// (measured: 4 in 100 of the rate, 3.10).
pub(crate) struct Live {
    pub(crate) session: Arc<Session>,
    queue: ShortString,
    messages: Merge<lapin::Consumer>,
    /// The consumer that was not cancelled.
    consumer: Option<Current>,
    next: u32,
    /// An end that was met and not told yet.
    over: Option<String>,
}

struct Current {
    id: u32,
    tag: ShortString,
    prefetch: u16,
}

impl Live {
    pub(crate) fn new(session: Arc<Session>, queue: ShortString) -> Self {
        let messages = Merge::default();
        Self { session, queue, messages, consumer: None, next: 0, over: None }
    }

    /// Consumes with this prefetch from now on.
    pub(crate) async fn set_prefetch(&mut self, prefetch: u16) -> Result<()> {
        if self.consumer.as_ref().is_some_and(|current| current.prefetch == prefetch) {
            return Ok(());
        }
        self.cancel().await?;
        let (id, tag) = (self.next, tag(self.next));
        self.next += 1;
        let (channel, queue) = (&self.session.channel, self.queue.clone());
        let consumer = consume(channel, queue, tag.clone(), prefetch).await?;
        self.consumer = Some(Current { id, tag, prefetch });
        self.messages.add(id, consumer);
        Ok(())
    }

    /// Ends the consumer. What it was sent is still to come.
    async fn cancel(&mut self) -> Result<()> {
        if let Some(Current { tag, .. }) = self.consumer.take() {
            let options = BasicCancelOptions::default();
            let cancelled = self.session.channel.basic_cancel(tag, options).await;
            cancelled.map_err(|error| failure("cancelling a consumer", error))?;
        }
        Ok(())
    }

    /// Whether it is this one that was not cancelled.
    fn is_current(&self, id: u32) -> bool {
        self.consumer.as_ref().is_some_and(|current| current.id == id)
    }

    /// The next message, or why there is none any more.
    async fn next(&mut self) -> Item {
        if let Some(reason) = self.over.take() {
            return Err(reason);
        }
        self.messages.turn();
        loop {
            match poll_fn(|cx| self.messages.poll(cx)).await {
                Some((_, Some(Ok(message)))) => return Ok(message),
                Some((id, end)) if self.is_current(id) => return Err(reason(end)),
                Some(_) => (),
                None => return Err("there is no consumer".to_owned()),
            }
        }
    }

    /// The next message, or why there is none any more. Where none is wanted now, only the end
    /// is waited for.
    pub(crate) async fn next_if(&mut self, wanted: bool) -> Item {
        if wanted { self.next().await } else { Err(self.ended().await) }
    }

    /// Returns when a consumer has ended, and why; what comes meanwhile is kept for
    /// [`next`](Self::next).
    async fn ended(&mut self) -> String {
        if let Some(reason) = self.over.take() {
            return reason;
        }
        let Self { messages, consumer, .. } = self;
        let current = consumer.as_ref().map(|current| current.id);
        let end = poll_fn(|cx| messages.poll_end(cx, |id| Some(id) == current));
        reason(end.await)
    }

    /// The next message, if it is there. An end is left for [`next`](Self::next).
    pub(crate) fn ready(&mut self) -> Option<Message> {
        match poll_fn(|cx| self.messages.poll(cx)).now_or_never()? {
            Some((_, Some(Ok(message)))) => Some(message),
            Some((id, end)) => {
                if self.is_current(id) {
                    self.over = Some(reason(end));
                }
                None
            }
            None => None,
        }
    }

    /// Ends the consumer, and gives what it was sent and nobody has taken.
    pub(crate) async fn stop(&mut self) -> Result<Vec<Message>> {
        self.cancel().await?;
        // All that will come is there: the broker's answer came after it.
        let mut left = Vec::new();
        while let Some(Some((_, item))) = poll_fn(|cx| self.messages.poll(cx)).now_or_never() {
            left.extend(item.and_then(lapin::Result::ok));
        }
        Ok(left)
    }
}

/// The name of a consumer, which others on the same channel do not have. It is short because
/// each message says whose it is, and `lapin` looks that up three times; the broker would
/// make up one of 31 bytes.
fn tag(id: u32) -> ShortString {
    ShortString::try_new(id.to_string()).unwrap_or_default()
}

async fn consume(
    channel: &Channel,
    queue: ShortString,
    tag: ShortString,
    prefetch: u16,
) -> Result<lapin::Consumer> {
    let doing = format!("consuming queue `{queue}`");
    // Never global: quorum queues refuse it, and the connection ends.
    let limited = channel.basic_qos(prefetch, BasicQosOptions::default()).await;
    limited.map_err(|error| failure(&doing, error))?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(queue, tag, options, none).await;
    consumer.map_err(|error| failure(&doing, error))
}
