//! A subscription: one queue of the broker, consumed over as many successive channels as needed.
//!
//! A channel has one consumer. The broker counts the prefetch for each consumer from its start, so a
//! new prefetch needs a new consumer, and that has a channel of its own: the messages of the one
//! before come first, and its deliveries are settled on the channel on which they came. Those
//! in flight count against the prefetch of the new consumer, which is replaced when they are settled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBackoff;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::context::SettleContext;
use super::counted::Counted;
use super::interruption;
use super::line::Line;
use super::live::{Live, Opener, Taken, Turn};
use super::place::Place;
use super::session::Session;
use crate::error::{Error, Result};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::connection::supervised::{STABLE_AFTER, backoff};

/// The shortest time between two changes of the prefetch.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);
/// How many channels of consumers that were cancelled there may be for a change.
const MOST_LINGERING: usize = 4;

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

impl Subscription {
    /// A subscription without a consumer, until it is [resumed](Self::resume).
    pub(crate) fn new(opener: Opener, prefetch: u16, counted: Arc<Counted>) -> Self {
        Self {
            opener: Arc::new(opener),
            counted,
            prefetch,
            state: State::Cancelled,
            left: VecDeque::new(),
            waits: backoff(),
            changed: None,
        }
    }

    /// Begins to consume now, on this connection, or fails.
    pub(crate) async fn begin(&mut self, up: &Arc<ConnectionEpoch>) -> Result<()> {
        let live = up.answer("consuming", self.opener.start(up, self.room())).await?;
        self.has_begun(live);
        Ok(())
    }

    /// The context in which its deliveries are settled.
    pub(crate) fn context(&self) -> &Arc<SettleContext> {
        self.opener.sessions.context()
    }

    /// Its connection.
    pub(crate) fn line(&self) -> &Line {
        &self.opener.line
    }

    /// Consumes again as soon as it can, if it was cancelled and has a prefetch.
    pub(crate) fn resume(&mut self) {
        if matches!(self.state, State::Cancelled) && self.prefetch > 0 {
            self.waits = backoff();
            self.open_in(Duration::ZERO, None);
        }
    }

    /// Has this prefetch from now on, or soon: a change takes a channel.
    pub(crate) fn set_prefetch(&mut self, prefetch: u16) {
        self.prefetch = prefetch;
    }

    /// Whether its consumer is to have more than it has, once earlier deliveries are settled.
    pub(crate) fn is_short(&self) -> bool {
        matches!(&self.state, State::Live(live) if live.prefetch < self.prefetch)
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
                            self.opener.troubles.not_replaced(queue, &error);
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
        match &mut self.state {
            State::Live(live) => live.ready(),
            _ => None,
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
                // Dropped, a consumer that begins ends with its channel.
                State::Opening(_) | State::Cancelled => return left,
            };
            // A connection that ends meanwhile requeues everything.
            left.extend(live.cancel().await.unwrap_or_default());
            left
        })
    }

    /// The prefetch of a consumer that begins now.
    fn room(&self) -> u16 {
        self.room_beside(self.context().in_flight.count())
    }

    /// The prefetch beside so many deliveries of other consumers.
    fn room_beside(&self, others: usize) -> u16 {
        let taken = u16::try_from(others + self.left.len()).unwrap_or(u16::MAX);
        self.prefetch.saturating_sub(taken).max(1)
    }

    /// When the prefetch is to be changed, if it is.
    fn change_at(&self) -> Option<Instant> {
        let State::Live(live) = &self.state else { return None };
        if live.prefetch == self.prefetch {
            return None;
        }
        let others = self.context().in_flight.count().saturating_sub(live.session.unsettled());
        is_worth_a_channel(live.prefetch, self.room_beside(others), self.prefetch).then(|| {
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
                let (opener, prefetch) = (Arc::clone(&self.opener), self.room());
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
        self.opener.troubles.not_started(self.opener.place.queue(), &error);
        self.opener.interruptions.begin(&error);
        self.open(None);
        Ok(())
    }

    /// The consumer has ended.
    fn lost(&mut self, reason: Option<String>) {
        let queue = self.opener.place.queue();
        let ended = self.end();
        let Some(reason) = reason else {
            // The connection logs why.
            if let Some(session) = ended {
                session.end();
            }
            return self.open(None);
        };
        tracing::warn!(queue, reason, "consumer closed by the broker; resubscribing");
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
        let wait = self.waits.next().unwrap_or_default();
        self.open_in(wait, ended);
    }

    fn open_in(&mut self, wait: Duration, ended: Option<Arc<Session>>) {
        let (opener, prefetch) = (Arc::clone(&self.opener), self.room());
        self.state = State::Opening(Box::pin(async move {
            if let Some(session) = ended {
                session.abandon().await;
            }
            opener.open(wait, prefetch).await
        }));
    }
}

/// Whether a consumer with the prefetch `current` is to be replaced by one with the prefetch `next`,
/// where `wanted` is that of all consumers together.
fn is_worth_a_channel(current: u16, next: u16, wanted: u16) -> bool {
    current > wanted || next == wanted || u32::from(next) >= 2 * u32::from(current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetch_grows_by_double_and_to_all_that_is_wanted() {
        for (current, next, wanted, is_worth) in [
            (10, 266, 266, true),
            (266, 1, 10, true),
            (1, 1, 10, false),
            (1, 2, 10, true),
            (2, 3, 10, false),
            (8, 9, 10, false),
            (8, 10, 10, true),
            (40_000, 50_000, u16::MAX, false),
        ] {
            let found = is_worth_a_channel(current, next, wanted);
            assert_eq!(found, is_worth, "{current} {next} {wanted}");
        }
    }
}
