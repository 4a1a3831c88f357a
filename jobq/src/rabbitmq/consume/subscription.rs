//! A subscription: one queue of the broker, consumed over as many successive channels as needed.
//!
//! A channel has one consumer. The broker counts the prefetch for each consumer from its start, so a
//! new prefetch needs a new consumer, and that has a channel of its own: the messages of the one
//! before come first, and its deliveries are settled on the channel on which they came.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBackoff;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery as Message;
use lapin::options::BasicCancelOptions;
use lapin::types::ShortString;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::context::SettleContext;
use super::counted::Counted;
use super::interruption::{self, Interruptions};
use super::line::Line;
use super::session::{Session, Sessions};
use super::valve::Valve;
use crate::error::{Error, ErrorKind, Result};
use crate::rabbitmq::connection::channel::{self, Take};
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::connection::link::{STABLE_AFTER, backoff};
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::topology::declared::Declared;
use crate::rabbitmq::topology::ensure::apply_again;
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::requirements::Wanted;
use crate::rabbitmq::values::short;

/// The shortest time between two changes of the prefetch.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);
/// How many channels of consumers that were cancelled there may be for a change.
const MOST_LINGERING: usize = 4;

/// A message, and the session that settles it.
pub(crate) type Taken = (Arc<Session>, Message);

/// The queue that is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The work queue of a user's queue.
    Work(&'static str),
    /// Its queue of solo runs.
    Solo(&'static str),
    /// The queue of unroutable messages.
    Orphan,
}

impl Place {
    /// The user's queue, for errors and logs.
    pub(crate) fn queue(self) -> &'static str {
        match self {
            Self::Work(queue) | Self::Solo(queue) => queue,
            Self::Orphan => ORPHAN,
        }
    }

    /// The name of the queue on the broker.
    pub(crate) fn name(self, names: &Names) -> String {
        match self {
            Self::Work(queue) => names.work(queue),
            Self::Solo(queue) => names.solo(queue),
            Self::Orphan => names.orphan(),
        }
    }

    /// The routing key of its jobs, in the names of consumers.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Work(queue) => queue.to_owned(),
            Self::Solo(queue) => Names::solo_key(queue),
            Self::Orphan => ORPHAN.to_owned(),
        }
    }

    /// What declares the queue again, if this client has declared it.
    fn wanted(self, known: &Declared) -> Option<Wanted> {
        match self {
            Self::Work(queue) | Self::Solo(queue) => known.part(queue),
            Self::Orphan => Some(Wanted::shared()),
        }
    }
}

/// What a subscription opens its channels with.
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
}

/// One queue that is consumed until the subscription is dropped.
pub(crate) struct Subscription {
    opener: Arc<Opener>,
    counted: Arc<Counted>,
    /// The wanted prefetch.
    prefetch: u16,
    state: State,
    /// Messages of consumers that have ended, which come before all others.
    left: VecDeque<Taken>,
    waits: ExponentialBackoff,
    /// The last change of the prefetch.
    changed: Option<Instant>,
}

enum State {
    /// A consumer is to begin, as soon as there is a connection.
    Opening(BoxFuture<'static, Result<Live>>),
    Live(Box<Live>),
    /// The consumer is replaced by one with another prefetch.
    Changing(BoxFuture<'static, (Result<Live>, Vec<Taken>)>),
    /// There is no consumer, and none is wanted.
    Cancelled,
}

/// A consumer.
struct Live {
    up: Arc<Up>,
    /// Ready when the connection has ended: `lapin` may not tell its consumers.
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
    session: Arc<Session>,
    consumer: lapin::Consumer,
    prefetch: u16,
    since: Instant,
    /// The reason of an end that was seen and not yet returned.
    end: Option<String>,
}

/// What comes in the place of a message.
enum Turn {
    /// The end of the consumer, with the broker's reason; none if the connection was lost.
    End(Option<String>),
    Change,
}

impl Subscription {
    /// A subscription without a consumer, until it is [resumed](Self::resume).
    pub(crate) fn new(opener: Opener, prefetch: u16, counted: Arc<Counted>) -> Self {
        Self {
            opener: Arc::new(opener),
            counted,
            prefetch: prefetch.max(1),
            state: State::Cancelled,
            left: VecDeque::new(),
            waits: backoff(),
            changed: None,
        }
    }

    /// Begins to consume now, on this connection, or fails.
    pub(crate) async fn begin(&mut self, up: &Arc<Up>) -> Result<()> {
        let live = up.answer("consuming", self.opener.start(up, self.prefetch)).await?;
        self.has_begun(live);
        Ok(())
    }

    /// What its deliveries are settled with.
    pub(crate) fn context(&self) -> &Arc<SettleContext> {
        self.opener.sessions.context()
    }

    /// Its connection.
    pub(crate) fn line(&self) -> &Line {
        &self.opener.line
    }

    /// Consumes again, as soon as it can.
    pub(crate) fn resume(&mut self) {
        self.waits = backoff();
        self.open(None);
    }

    /// Whether there is neither a consumer nor one to come.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self.state, State::Cancelled)
    }

    /// Consumes with this prefetch from now on, or soon: a change takes a channel.
    pub(crate) fn set_prefetch(&mut self, prefetch: u16) {
        self.prefetch = prefetch.max(1);
    }

    /// The next message; it consumes anew after each loss. If `wanted` is false, messages that arrive
    /// are kept for the next call, and this call does not return. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The queue cannot be consumed any more.
    pub(crate) async fn next(&mut self, wanted: bool) -> Result<Taken> {
        loop {
            if wanted && let Some(taken) = self.left.pop_front() {
                return Ok(taken);
            }
            let change_at = self.change_at();
            match &mut self.state {
                State::Cancelled => return std::future::pending().await,
                State::Opening(opening) => match opening.as_mut().await {
                    Ok(live) => self.has_begun(live),
                    Err(error) => self.failed(error)?,
                },
                State::Changing(changing) => {
                    let (changed, left) = changing.as_mut().await;
                    self.left.extend(left);
                    match changed {
                        Ok(live) => self.has_begun(live),
                        Err(error) => {
                            let queue = self.opener.place.queue();
                            tracing::warn!(queue, %error, "consuming anew");
                            self.opener.interruptions.begin(&error);
                            self.open(None);
                        }
                    }
                }
                State::Live(live) => match live.next(change_at).await {
                    Ok(message) if wanted => {
                        return Ok((Arc::clone(&live.session), message));
                    }
                    Ok(message) => {
                        self.left.push_back((Arc::clone(&live.session), message));
                    }
                    Err(Turn::End(reason)) => self.lost(reason),
                    Err(Turn::Change) => self.change(),
                },
            }
        }
    }

    /// The next message, if it has arrived.
    pub(crate) fn ready(&mut self) -> Option<Taken> {
        if let Some(taken) = self.left.pop_front() {
            return Some(taken);
        }
        let State::Live(live) = &mut self.state else { return None };
        match live.consumer.next().now_or_never()? {
            Some(Ok(message)) => Some((Arc::clone(&live.session), message)),
            end => {
                live.end = Some(reason(end));
                None
            }
        }
    }

    /// Gives up the channel, whose unsettled messages come again, and consumes anew after a wait.
    pub(crate) fn start_over(&mut self) {
        let ended = self.end();
        self.open(ended);
    }

    /// Ends the consumer, and returns its untaken messages. A broker that does not answer may send
    /// more until it does.
    pub(crate) fn cancel(&mut self) -> BoxFuture<'static, Vec<Taken>> {
        let mut left = Vec::from(std::mem::take(&mut self.left));
        let state = std::mem::replace(&mut self.state, State::Cancelled);
        self.opener.interruptions.end();
        self.counted.cancel();
        let counted = Arc::clone(&self.counted);
        if let State::Live(live) = &state {
            live.session.count_as_cancelled(&counted);
        }
        Box::pin(async move {
            let live = match state {
                State::Live(live) => *live,
                State::Changing(changing) => {
                    let (changed, of_old) = changing.await;
                    left.extend(of_old);
                    let Ok(live) = changed else { return left };
                    live.session.count_as_cancelled(&counted);
                    live
                }
                // Dropped, its channel ends.
                State::Opening(_) | State::Cancelled => return left,
            };
            // A connection that ends meanwhile requeues everything.
            left.extend(live.cancel().await.unwrap_or_default());
            left
        })
    }

    /// When the prefetch is to be changed, if it is.
    fn change_at(&self) -> Option<Instant> {
        let State::Live(live) = &self.state else { return None };
        (live.prefetch != self.prefetch).then(|| {
            let earliest = self.changed.map(|changed| changed + BETWEEN_CHANGES);
            earliest.unwrap_or_else(Instant::now)
        })
    }

    /// Replaces the consumer by one with the wanted prefetch.
    fn change(&mut self) {
        self.changed = Some(Instant::now());
        if self.opener.sessions.open_channels() > MOST_LINGERING {
            // Until one of them has ended.
            return;
        }
        match std::mem::replace(&mut self.state, State::Cancelled) {
            State::Live(live) => {
                self.counted.cancel();
                live.session.count_as_cancelled(&self.counted);
                let (opener, prefetch) = (Arc::clone(&self.opener), self.prefetch);
                self.state = State::Changing(Box::pin(live.replace(opener, prefetch)));
            }
            other => self.state = other,
        }
    }

    fn has_begun(&mut self, live: Live) {
        self.opener.interruptions.end();
        self.counted.begin(self.opener.tag.as_str());
        self.state = State::Live(Box::new(live));
    }

    /// A consumer could not begin. An error if none ever can.
    fn failed(&mut self, error: Error) -> Result<()> {
        let may_pass = error.may_pass() || self.opener.place == Place::Orphan;
        if error.is_closed() || !may_pass || self.opener.line.is_given_up() {
            self.state = State::Cancelled;
            return Err(error);
        }
        interruption::log(self.opener.place.queue(), &error);
        self.opener.interruptions.begin(&error);
        self.open(None);
        Ok(())
    }

    /// The consumer has ended.
    fn lost(&mut self, reason: Option<String>) {
        let queue = self.opener.place.queue();
        let ended = self.end();
        let Some(reason) = reason else {
            // The link tells why.
            if let Some(session) = ended {
                session.end();
            }
            return self.open(None);
        };
        tracing::warn!(queue, reason, "the broker ended the consumer; consuming anew");
        self.opener.interruptions.begin(&interruption::ended(queue, &reason));
        self.open(ended);
    }

    /// Takes the session of the consumer, which has ended or is given up.
    fn end(&mut self) -> Option<Arc<Session>> {
        let state = std::mem::replace(&mut self.state, State::Cancelled);
        let State::Live(live) = state else { return None };
        if live.since.elapsed() > STABLE_AFTER {
            self.waits = backoff();
        }
        self.counted.cancel();
        live.session.count_as_cancelled(&self.counted);
        self.left.retain(|(session, _)| session.epoch != live.session.epoch);
        Some(live.session)
    }

    /// Has a consumer begin as soon as it can, after this session has ended.
    fn open(&mut self, ended: Option<Arc<Session>>) {
        let (opener, prefetch) = (Arc::clone(&self.opener), self.prefetch);
        let wait = self.waits.next().unwrap_or_default();
        self.state = State::Opening(Box::pin(async move {
            if let Some(session) = ended {
                session.abandon().await;
            }
            opener.open(wait, prefetch).await
        }));
    }
}

impl Live {
    /// The next message. The prefetch is to be changed at this time, if at any.
    async fn next(&mut self, change_at: Option<Instant>) -> std::result::Result<Message, Turn> {
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

    /// Ends the consumer, and returns its untaken messages.
    async fn cancel(mut self) -> Result<Vec<Taken>> {
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
    async fn replace(
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

impl Opener {
    /// Begins a consumer as soon as there is a connection and the valve is open.
    async fn open(&self, wait: Duration, prefetch: u16) -> Result<Live> {
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
                () = link.lost(up.generation) => continue,
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
    async fn start(&self, up: &Arc<Up>, prefetch: u16) -> Result<Live> {
        match self.consume(up, prefetch).await {
            Err(error) if error.is_not_found() => {
                let known = self.sessions.context().declarer.known();
                let Some(wanted) = self.place.wanted(known) else {
                    let queue = self.place.queue();
                    let text = format!("there is no queue `{queue}` to consume; declare it first");
                    return Err(Error::new(ErrorKind::NotFound, text).because(error));
                };
                apply_again(up, &known.topology(&wanted)).await?;
                self.consume(up, prefetch).await
            }
            started => started,
        }
    }

    async fn consume(&self, up: &Arc<Up>, prefetch: u16) -> Result<Live> {
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
