//! One channel that is consumed on, by as many consumers as its prefetch needs.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use lapin::Channel;
use lapin::message::Delivery as Message;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};

use super::cork::{Cork, CorkedTask};
use super::failure::failure;
use super::merge::{Merge, Tagged};
use super::session::Session;
use crate::error::Result;

/// More consumers than this on one channel are replaced by one.
const MOST_CONSUMERS: usize = 8;

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

/// The broker counts the prefetch for each consumer, from the consumer's beginning. So
/// a raised prefetch is one more consumer, and only a lowered one begins anew: then
/// what is in hand comes on top until it is settled.
pub(crate) struct Live {
    pub(crate) session: Arc<Session>,
    queue: ShortString,
    messages: Merge<lapin::Consumer>,
    /// The consumers that were not cancelled, with their prefetch.
    consumers: BTreeMap<u32, (ShortString, u16)>,
    next: u32,
    /// An end that was met and not told yet.
    over: Option<String>,
    task: CorkedTask,
}

impl Live {
    pub(crate) fn new(session: Arc<Session>, queue: ShortString, cork: Cork) -> Self {
        let (messages, consumers) = (Merge::default(), BTreeMap::new());
        let task = CorkedTask::new(cork);
        Self { session, queue, messages, consumers, next: 0, over: None, task }
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
        let id = self.next;
        self.next += 1;
        let tag = tag(id);
        let (channel, queue) = (&self.session.channel, self.queue.clone());
        let consumer = consume(channel, queue, tag.clone(), prefetch).await?;
        self.consumers.insert(id, (tag, prefetch));
        self.messages.add(id, consumer);
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
    async fn next(&mut self) -> Item {
        if let Some(reason) = self.over.take() {
            return Err(reason);
        }
        self.messages.turn();
        loop {
            match poll_fn(|cx| self.poll_corked(cx)).await {
                Some((_, Some(Ok(message)))) => return Ok(message),
                Some((id, end)) if self.consumers.contains_key(&id) => return Err(reason(end)),
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
        let Self { messages, consumers, task, .. } = self;
        let end = poll_fn(|cx| {
            let cx = &mut Context::from_waker(task.waker(cx.waker()));
            messages.poll_end(cx, |id| consumers.contains_key(&id))
        });
        reason(end.await)
    }

    /// For a task that is to be woken when all that was read is there.
    fn poll_corked(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(u32, Option<lapin::Result<Message>>)>> {
        let waker = self.task.waker(cx.waker());
        self.messages.poll(&mut Context::from_waker(waker))
    }

    /// The next message, if it is there. An end is left for [`next`](Self::next).
    pub(crate) fn ready(&mut self) -> Option<Message> {
        match poll_fn(|cx| self.messages.poll(cx)).now_or_never()? {
            Some((_, Some(Ok(message)))) => Some(message),
            Some((id, end)) => {
                if self.consumers.contains_key(&id) {
                    self.over = Some(reason(end));
                }
                None
            }
            None => None,
        }
    }

    /// Ends the consumers and gives back what they were sent.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.cancel().await?;
        // All that will come is there: the broker's answer came after it.
        while let Some(Some((_, item))) = poll_fn(|cx| self.messages.poll(cx)).now_or_never() {
            if let Some(Ok(message)) = item {
                self.session.give_back(message.delivery_tag);
            }
        }
        Ok(())
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
