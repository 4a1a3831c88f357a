//! One channel that is consumed on, by as many consumers as its prefetch needs.

use std::collections::{BTreeMap, VecDeque};
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{FutureExt, StreamExt};
use lapin::Channel;
use lapin::message::Delivery as Message;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use tokio::sync::mpsc;

use super::cork::{Cork, CorkedTask};
use super::failure::failure;
use super::session::Session;
use crate::error::Result;

/// More consumers than this on one channel are replaced by one.
const MOST_CONSUMERS: usize = 8;

/// A message, or the end of a consumer, with the reason.
type Item = std::result::Result<Message, String>;

/// What comes for one consumer.
struct Stream {
    id: u32,
    consumer: lapin::Consumer,
    /// The messages that are its next.
    here: VecDeque<Message>,
}

impl Stream {
    /// What the broker sends next, or why it sends nothing any more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        self.consumer.poll_next_unpin(cx).map(|next| match next {
            Some(Ok(message)) => Ok(message),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("it was cancelled".to_owned()),
        })
    }
}

/// The broker counts the prefetch for each consumer, from the consumer's beginning. So
/// a raised prefetch is one more consumer, and only a lowered one begins anew: then
/// what is in hand comes on top until it is settled.
pub(crate) struct Live {
    pub(crate) session: Arc<Session>,
    queue: ShortString,
    streams: Vec<Stream>,
    /// The consumers that were not cancelled, with their prefetch.
    consumers: BTreeMap<u32, (ShortString, u16)>,
    next: u32,
    /// The tag of the last message.
    last: u64,
    /// The place of the consumer that is asked first.
    turn: usize,
    /// An end that was met and not told yet.
    over: Option<String>,
    task: CorkedTask,
}

impl Live {
    pub(crate) fn new(session: Arc<Session>, queue: ShortString, cork: Cork) -> Self {
        let (streams, consumers) = (Vec::new(), BTreeMap::new());
        let task = CorkedTask::new(cork);
        Self { session, queue, streams, consumers, next: 0, last: 0, turn: 0, over: None, task }
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
        self.streams.push(Stream { id, consumer, here: VecDeque::new() });
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
        // One after the other, so that none waits for long to tell of its end.
        self.turn = (self.turn + 1) % self.streams.len().max(1);
        loop {
            match poll_fn(|cx| self.poll_corked(cx)).await {
                Some((_, Ok(message))) => return Ok(message),
                Some((id, Err(reason))) if self.consumers.contains_key(&id) => return Err(reason),
                Some((_, Err(_))) => (),
                None => return Err("there is no consumer".to_owned()),
            }
        }
    }

    /// The next message, once there is room for it in hand and in `jobs`; or why there is none
    /// any more, where it is not that nobody takes jobs. That is told without room as well.
    pub(crate) async fn next_with_room<'j, T>(
        &mut self,
        in_hand: bool,
        jobs: &'j mpsc::Sender<T>,
    ) -> std::result::Result<(mpsc::Permit<'j, T>, Message), Option<String>> {
        let room = async {
            if !in_hand {
                pending::<()>().await;
            }
            jobs.reserve().await
        };
        let room = tokio::select! {
            biased;
            room = room => room.map_err(|_| None)?,
            reason = self.ended() => return Err(Some(reason)),
        };
        let message = self.next().await.map_err(Some)?;
        Ok((room, message))
    }

    /// Returns when a consumer has ended, and why; what comes meanwhile is kept for
    /// [`next`](Self::next).
    async fn ended(&mut self) -> String {
        if let Some(reason) = self.over.take() {
            return reason;
        }
        let Self { streams, consumers, task, .. } = self;
        poll_fn(|cx| {
            let cx = &mut Context::from_waker(task.waker(cx.waker()));
            for stream in streams.iter_mut().filter(|stream| consumers.contains_key(&stream.id)) {
                while let Poll::Ready(item) = stream.poll(cx) {
                    match item {
                        Ok(message) => stream.here.push_back(message),
                        Err(reason) => return Poll::Ready(reason),
                    }
                }
            }
            Poll::Pending
        })
        .await
    }

    /// [`poll`](Self::poll) for a task that is to be woken: when all that was read is there.
    fn poll_corked(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Item)>> {
        let waker = self.task.waker(cx.waker()).clone();
        self.poll(&mut Context::from_waker(&waker))
    }

    /// What any of the consumers has, as long as there is one: messages in the order in which
    /// they were sent on the channel. Their tags count up, so that the next one is known as
    /// such without asking the other consumers, each of which `lapin` keeps behind a lock.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Item)>> {
        let mut came = true;
        // What was sent before a message that is there is there as well, but maybe only since
        // its consumer was asked.
        while came {
            came = false;
            for step in 0..self.streams.len() {
                let place = (self.turn + step) % self.streams.len();
                let stream = &mut self.streams[place];
                let (is_new, item) = match stream.here.pop_front() {
                    Some(message) => (false, Poll::Ready(Ok(message))),
                    None => (true, stream.poll(cx)),
                };
                match item {
                    Poll::Pending => {}
                    Poll::Ready(Ok(message)) if message.delivery_tag == self.last + 1 => {
                        (self.last, self.turn) = (message.delivery_tag, place);
                        return Poll::Ready(Some((stream.id, Ok(message))));
                    }
                    Poll::Ready(Ok(message)) => {
                        stream.here.push_front(message);
                        came |= is_new;
                    }
                    Poll::Ready(Err(reason)) => {
                        let id = self.streams.swap_remove(place).id;
                        return Poll::Ready(Some((id, Err(reason))));
                    }
                }
            }
        }
        let tag = |stream: &&mut Stream| stream.here.front().map(|message| message.delivery_tag);
        let there = self.streams.iter_mut().filter(|stream| !stream.here.is_empty());
        let earliest = there.min_by_key(tag);
        match earliest.and_then(|stream| Some((stream.id, stream.here.pop_front()?))) {
            Some((id, message)) => {
                self.last = message.delivery_tag;
                Poll::Ready(Some((id, Ok(message))))
            }
            None if self.streams.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// The next message, if it is there. An end is left for [`next`](Self::next).
    pub(crate) fn ready(&mut self) -> Option<Message> {
        match poll_fn(|cx| self.poll(cx)).now_or_never()? {
            Some((_, Ok(message))) => Some(message),
            Some((id, Err(reason))) => {
                if self.consumers.contains_key(&id) {
                    self.over = Some(reason);
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
        while let Some(Some((_, item))) = poll_fn(|cx| self.poll(cx)).now_or_never() {
            if let Ok(message) = item {
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
