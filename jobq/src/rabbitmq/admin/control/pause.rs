//! Pausing and resuming queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Control;
use super::calls::Response;
use super::queue::{ControlQueue, publish};
use super::wire::{ALL, Message, address_key, echo_key, paused_pattern};
use crate::engine::{Figure, Pause};
use crate::error::{Error, Result};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::declare::{declare_all, delete, unbind};
use crate::rabbitmq::topology::ensure::apply;
use crate::rabbitmq::topology::plan::Topology;

/// How long the record of a pause may take. The pause does not wait for it: a quorum queue may be
/// without a leader.
const RECORD: Duration = Duration::from_secs(5);
/// A change of bindings that takes longer is looked at again. A node that is cut off waits with its
/// answer until it gives the others up, says yes, and with `pause_minority` stops and forgets the
/// change (RabbitMQ 3.10.8 with Mnesia, seen 60 ms before its stop).
const SLOW: Duration = Duration::from_secs(1);
/// The time within which such a node stops, where there is no record to ask for its agreement.
const STOPS: Duration = Duration::from_secs(5);

impl Control {
    /// Pauses a queue: writes the record, binds, and tells all pools.
    pub(crate) async fn pause(self: &Arc<Self>, queue: &str, pause: &Pause) -> Result<()> {
        let doing = format!("pausing queue `{queue}`");
        self.check_alarm(&doing, queue).await?;
        let is_begun = AtomicBool::new(false);
        let pausing = async {
            let up = self.broker.up().await?;
            apply(&up, &Topology::of_control(self.names())).await?;
            // If the exchange is new, this client would not learn of the pause either.
            self.queue().await?.bind_echo().await?;
            match timeout(RECORD, self.write_record(&up, queue, pause)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(queue, %error, "could not record who paused the queue and why");
                }
                Err(_) => tracing::warn!(
                    queue,
                    error = "no answer from the broker",
                    "could not record who paused the queue and why"
                ),
            }
            is_begun.store(true, Ordering::Relaxed);
            self.set(up, queue, Some(pause)).await
        };
        let paused = self.broker.unless_blocked(&doing, pausing).await;
        paused.map_err(|error| {
            maybe(named(error, &doing), &is_begun, "it may be paused nevertheless")
        })?;
        self.tell_all(queue, Message::Paused { queue: queue.to_owned(), pause: pause.clone() })
            .await;
        Ok(())
    }

    /// Tells all pools again, if the queue is still paused. Returns whether it is.
    pub(crate) async fn repeat_pause(self: &Arc<Self>, queue: &str, pause: &Pause) -> Result<bool> {
        let is_paused = self.check_alarm(&format!("pausing queue `{queue}`"), queue).await?;
        if is_paused {
            self.tell_all(queue, Message::Paused { queue: queue.to_owned(), pause: pause.clone() })
                .await;
        }
        Ok(is_paused)
    }

    /// Resumes a queue, and returns whether it was paused.
    pub(crate) async fn resume(self: &Arc<Self>, queue: &str) -> Result<bool> {
        let doing = format!("resuming queue `{queue}`");
        let was_paused = self.check_alarm(&doing, queue).await?;
        let is_begun = AtomicBool::new(false);
        let resuming = async {
            let up = self.broker.up().await?;
            is_begun.store(true, Ordering::Relaxed);
            // First: without its binding, the record means that the broker has lost the pause.
            if let Ok(Err(error)) = timeout(RECORD, self.purge_record(&up, queue)).await {
                tracing::debug!(queue, %error, "could not delete the pause record");
            }
            self.set(up, queue, None).await
        };
        let resumed = self.broker.unless_blocked(&doing, resuming).await;
        resumed.map_err(|error| {
            maybe(named(error, &doing), &is_begun, "it may be resumed nevertheless")
        })?;
        self.tell_all(queue, Message::Resumed { queue: queue.to_owned() }).await;
        Ok(was_paused)
    }

    /// Whether the queue is paused. The question has to be published, so that it fails during an
    /// alarm: an order would wait on the connection, and be carried out when nobody expects it.
    async fn check_alarm(self: &Arc<Self>, doing: &str, queue: &str) -> Result<bool> {
        let asked = self.broker.unless_blocked(doing, self.is_paused(queue)).await;
        asked.map_err(|error| named(error, doing))
    }

    /// Tells all pools. They would also learn by themselves, within half a minute.
    async fn tell_all(&self, queue: &str, message: Message) {
        let telling = async {
            let up = self.broker.up().await?;
            publish(&up, &[(self.names().control(), ALL.to_owned(), &message)]).await
        };
        if let Err(error) = self.broker.unless_blocked("telling pools", telling).await {
            tracing::debug!(
                queue, %error,
                "could not notify pools of a pause or resume; they learn of it later"
            );
        }
    }

    /// Ends the pause of a queue that was deleted, if it is paused.
    pub(crate) async fn forget(&self, up: &ConnectionEpoch, queue: &str) {
        let forgetting = async {
            self.unbind(up, queue).await?;
            delete(up, &self.names().pause_record(queue)).await?;
            let message = Message::Resumed { queue: queue.to_owned() };
            publish(up, &[(self.names().control(), ALL.to_owned(), &message)]).await
        };
        if let Err(error) = forgetting.await {
            // The exchanges may not exist, or be none of this user's.
            tracing::debug!(queue, %error, "could not clear the pause of a deleted queue");
        }
    }

    /// The record of a queue, if it is paused.
    pub(crate) async fn paused(self: &Arc<Self>, queue: &str) -> Result<Figure<Option<Pause>>> {
        match self.broker.unless_blocked("asking for a pause", self.is_paused(queue)).await {
            Ok(false) => Ok(Figure::Known(None)),
            Ok(true) => Ok(Figure::Known(Some(self.record(queue).await.unwrap_or_default()))),
            Err(error) if error.is_closed() || error.is_connection() => Err(error),
            Err(error) => Ok(Figure::unknown(error.to_string())),
        }
    }

    /// Whether a queue is paused, as the node of this client knows it.
    async fn is_paused(self: &Arc<Self>, queue: &str) -> Result<bool> {
        loop {
            let own = self.queue().await?;
            if let Some(answer) = self.is_paused_on(&own, queue).await? {
                return Ok(answer);
            }
        }
    }

    /// [`is_paused`](Self::is_paused), asked through this control queue; `None` if it ends first.
    pub(super) async fn is_paused_on(
        &self,
        own: &ControlQueue,
        queue: &str,
    ) -> Result<Option<bool>> {
        let key = echo_key(queue, own.address);
        self.is_echoed(own, Some((self.names().paused(), key))).await
    }

    /// Returns when a message has come back: the broker takes messages then.
    pub(super) async fn fence(self: &Arc<Self>) -> Result<()> {
        loop {
            let own = self.queue().await?;
            if self.is_echoed(&own, None).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Sends an echo to this place, if any, and then a fence, which always comes back. Returns whether
    /// the echo did; `None` if the control queue ended first.
    async fn is_echoed(
        &self,
        own: &ControlQueue,
        to: Option<(String, String)>,
    ) -> Result<Option<bool>> {
        let mut call = self.calls.open();
        let number = call.number;
        let (echo, fence) = (Message::Echo { number }, Message::Fence { number });
        let mut sent: Vec<_> =
            to.map(|(exchange, key)| (exchange, key, &echo)).into_iter().collect();
        sent.push((self.names().control(), address_key(own.address), &fence));
        publish(&own.up, &sent).await?;
        let mut is_echoed = false;
        let answer = async {
            loop {
                match call.next().await {
                    Response::Echo => is_echoed = true,
                    Response::Fence => return Ok(is_echoed),
                    Response::Answer(..) | Response::Asked => {}
                }
            }
        };
        let answer = own.up.answer("asking for a pause", answer);
        own.over.run_until_cancelled(answer).await.transpose()
    }

    /// Binds or unbinds, until it is certain.
    async fn set(
        self: &Arc<Self>,
        mut up: Arc<ConnectionEpoch>,
        queue: &str,
        pause: Option<&Pause>,
    ) -> Result<()> {
        let is_paused = pause.is_some();
        loop {
            let start = Instant::now();
            if is_paused {
                self.bind(&up, queue).await?;
            } else {
                self.unbind(&up, queue).await?;
            }
            if start.elapsed() < SLOW {
                return Ok(());
            }
            // A change of the record needs other nodes, which one that is cut off has not.
            let agreeing = async {
                match pause {
                    Some(pause) => self.write_record(&up, queue, pause).await,
                    None => self.purge_record(&up, queue).await,
                }
            };
            let is_agreed = up.over.run_until_cancelled(agreeing).await;
            // Where the node goes on, a difference is the later order of somebody else.
            let goes_on = matches!(is_agreed, Some(Ok(())))
                || timeout(STOPS, up.over.cancelled()).await.is_err();
            if goes_on || self.is_paused(queue).await? == is_paused {
                return Ok(());
            }
            up = self.broker.up().await?;
        }
    }

    pub(super) async fn bind(&self, up: &ConnectionEpoch, queue: &str) -> Result<()> {
        declare_all(up, [&self.binding(queue)], || ()).await
    }

    async fn unbind(&self, up: &ConnectionEpoch, queue: &str) -> Result<()> {
        unbind(up, &self.binding(queue)).await
    }

    /// The binding of a paused queue, without arguments: one with others would be a second pause.
    fn binding(&self, queue: &str) -> Declaration {
        let (from, to) = (self.names().paused(), self.names().control_echo());
        Declaration::ExchangeBinding { from, to, key: paused_pattern(queue) }
    }
}

/// The error of an order, with the order and its queue. That of a lost connection has only the step.
fn named(error: Error, doing: &str) -> Error {
    if error.to_string().starts_with(doing) {
        return error;
    }
    Error::new(error.kind(), format!("{doing}: {error}")).with_source(error)
}

/// The error of an order that was given, so that it is not known whether it is carried out.
fn maybe(error: Error, is_begun: &AtomicBool, what: &str) -> Error {
    if !is_begun.load(Ordering::Relaxed) {
        return error;
    }
    Error::new(error.kind(), format!("{error}; {what}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_error_of_an_order_names_it_once() {
        let doing = "pausing queue `mail`";
        for (text, expected) in [
            (
                "opening a channel failed: reset",
                "pausing queue `mail`: opening a channel failed: reset",
            ),
            ("pausing queue `mail` failed: refused", "pausing queue `mail` failed: refused"),
        ] {
            let error = named(Error::new(ErrorKind::Connection, text), doing);
            assert_eq!(
                (error.kind(), error.to_string()),
                (ErrorKind::Connection, expected.to_owned())
            );
        }
    }
}
