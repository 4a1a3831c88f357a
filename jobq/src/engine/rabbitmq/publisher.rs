//! Publishing: one task with one channel in confirm mode, to which all callers send.
//!
//! A publish is queued when its future is first polled, so that many are polled
//! together; awaiting one after the other would pay two changes of thread for each.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation, ErrorKind as Lapin};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::declare::{Declared, open};
use super::failure::{NOT_FOUND, code, failure, timed_out};
use super::link::{Link, Up, backoff};
use super::wire::Message;
use crate::engine::closed;
use crate::error::{Error, ErrorKind, Result};

/// How many publishes may be unconfirmed: a confirm of many walks them all.
const WINDOW: usize = 1_000;
/// How long the answers of a lost channel are waited for.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Publishes messages, each confirmed.
#[derive(Debug, Clone)]
pub(crate) struct Publisher {
    requests: mpsc::UnboundedSender<Request>,
    timeout: Duration,
}

/// A message that was handed to the publisher.
#[derive(Debug)]
pub(crate) struct Pending {
    message: Arc<Message>,
    ticket: Arc<Ticket>,
    answer: oneshot::Receiver<Result<()>>,
    timeout: Duration,
}

#[derive(Debug)]
struct Request {
    ticket: Arc<Ticket>,
    answer: oneshot::Sender<Result<()>>,
}

/// A message for as long as it is not sent. Its caller may take it back, and then it never
/// is, nor kept; after it was sent, nobody knows until the answer comes.
#[derive(Debug)]
struct Ticket(Mutex<Option<Arc<Message>>>);

impl Ticket {
    fn place(&self) -> MutexGuard<'_, Option<Arc<Message>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Arc<Message>> {
        self.place().take()
    }
}

impl Publisher {
    pub(crate) fn spawn(link: Link, declared: Arc<Declared>, timeout: Duration) -> Self {
        let (requests, received) = mpsc::unbounded_channel();
        tokio::spawn(run(link, declared, received));
        Self { requests, timeout }
    }

    /// Hands a message over; it is sent even if the answer is not asked for.
    pub(crate) fn send(&self, message: Arc<Message>) -> Pending {
        let ticket = Arc::new(Ticket(Mutex::new(Some(Arc::clone(&message)))));
        let (answer, answered) = oneshot::channel();
        let request = Request { ticket: Arc::clone(&ticket), answer };
        // If nobody receives, the answer is dropped, which says so.
        let _ = self.requests.send(request);
        Pending { message, ticket, answer: answered, timeout: self.timeout }
    }

    /// Publishes a message in any case: where the broker refuses it or the connection is
    /// lost, again and again, for as long as `wanted` says.
    pub(crate) async fn publish_surely(
        &self,
        message: Arc<Message>,
        wanted: impl Fn() -> bool,
    ) -> Result<()> {
        let mut waits = backoff();
        loop {
            // Without a limit: while an alarm blocks the connection, another try would
            // only add a copy to those that wait for its end.
            let error = match self.send(Arc::clone(&message)).confirmed().await {
                Err(error) if error.kind() != ErrorKind::Closed && wanted() => error,
                result => return result,
            };
            tracing::warn!(%error, "a job could not be moved; it stays where it is until it can");
            tokio::time::sleep(waits.next().unwrap_or_default()).await;
        }
    }
}

impl Pending {
    /// The broker's answer, or an error when the time is over.
    pub(crate) async fn answer_until(mut self, deadline: Instant) -> Result<()> {
        if let Ok(answer) = tokio::time::timeout_at(deadline, &mut self.answer).await {
            return answer.unwrap_or_else(|_| Err(self.unanswered()));
        }
        let never_sent = self.ticket.take().is_some();
        let error = timed_out(&doing(&self.message), self.timeout);
        Err(if never_sent { error } else { error.but_maybe_enqueued() })
    }

    /// The broker's answer, whenever it comes.
    async fn confirmed(mut self) -> Result<()> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    fn unanswered(&self) -> Error {
        if self.ticket.take().is_some() {
            return closed();
        }
        lost(&self.message)
    }
}

fn doing(message: &Message) -> String {
    format!("publishing to exchange `{}` with the key `{}`", message.exchange, message.key)
}

fn lost(message: &Message) -> Error {
    let text = format!("{}: the connection was lost before the answer came", doing(message));
    Error::new(ErrorKind::Connection, text).but_maybe_enqueued()
}

async fn run(link: Link, declared: Arc<Declared>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut unsent = VecDeque::new();
    let mut waits = backoff();
    let mut restored = None;
    while let Ok(up) = link.up().await {
        if restored != Some(up.generation) {
            if let Err(error) = declared.restore(&up).await {
                tracing::error!(?error, "the queues could not be declared on the new connection");
                if error.is_connection() {
                    pause(&link, &up, waits.next()).await;
                    continue;
                }
            }
            restored = Some(up.generation);
        }
        let channel = match open_confirming(&up).await {
            Ok(channel) => channel,
            Err(error) => {
                tracing::warn!(%error, "no channel to publish on");
                pause(&link, &up, waits.next()).await;
                continue;
            }
        };
        match serve(&link, &up, channel, &mut unsent, &mut requests).await {
            Ended::Done => return,
            Ended::Lost => (),
            // The broker lost an exchange, or somebody deleted it.
            Ended::Missing => restored = None,
        }
        waits = backoff();
    }
    // Closed: the answers are dropped, and their callers learn it from that.
}

async fn pause(link: &Link, up: &Up, wait: Option<Duration>) {
    let _ = tokio::time::timeout(wait.unwrap_or_default(), link.lost(up.generation)).await;
}

async fn open_confirming(up: &Up) -> Result<Arc<Channel>> {
    let channel = open(up).await?;
    let confirming = channel.confirm_select(ConfirmSelectOptions::default()).await;
    confirming.map_err(|error| failure("asking for confirms", error))?;
    Ok(Arc::new(channel))
}

/// Why a channel is not published on any more.
enum Ended {
    /// Nobody can ask for anything any more.
    Done,
    Lost,
    /// As lost, because an exchange is missing.
    Missing,
}

async fn serve(
    link: &Link,
    up: &Up,
    channel: Arc<Channel>,
    unsent: &mut VecDeque<Request>,
    requests: &mut mpsc::UnboundedReceiver<Request>,
) -> Ended {
    let mut window = FuturesUnordered::new();
    let mut batch = Vec::with_capacity(WINDOW);
    let mut ended = None;
    loop {
        let free = WINDOW - window.len();
        for request in unsent.drain(..unsent.len().min(free)) {
            window.push(publish(Arc::clone(&channel), request));
        }
        let free = WINDOW - window.len();
        tokio::select! {
            biased;
            Some(sent) = window.next() => match sent {
                Sent::Answered => (),
                Sent::Lost(missing) => {
                    ended = Some(if missing { Ended::Missing } else { Ended::Lost });
                }
                Sent::Not(request) => {
                    unsent.push_back(request);
                    ended.get_or_insert(Ended::Lost);
                }
            },
            count = requests.recv_many(&mut batch, free), if free > 0 => {
                if count == 0 {
                    ended = Some(Ended::Done);
                }
                unsent.extend(batch.drain(..));
            }
            () = link.lost(up.generation) => ended = Some(Ended::Lost),
        }
        if let Some(mut ended) = ended {
            // A channel that has ended fails what it still has to answer.
            let rest = async {
                while let Some(sent) = window.next().await {
                    match sent {
                        Sent::Not(request) => unsent.push_back(request),
                        Sent::Lost(true) => ended = Ended::Missing,
                        _ => (),
                    }
                }
            };
            let _ = tokio::time::timeout(LAST_ANSWERS, rest).await;
            return ended;
        }
    }
}

/// What became of one publish.
enum Sent {
    Answered,
    /// The channel has ended; maybe for want of an exchange.
    Lost(bool),
    /// The channel had ended before.
    Not(Request),
}

async fn publish(channel: Arc<Channel>, request: Request) -> Sent {
    let Some(message) = request.ticket.take() else {
        return Sent::Answered;
    };
    let options = BasicPublishOptions::default();
    let (exchange, key) = (message.exchange.clone(), message.key.clone());
    let sending =
        channel.basic_publish(exchange, key, options, &message.payload, message.properties.clone());
    let confirmed = match sending.await {
        // Only this error comes from before the frames are queued.
        Err(error) if matches!(error.kind(), Lapin::InvalidChannelState(_, "basic.publish")) => {
            *request.ticket.place() = Some(message);
            return Sent::Not(request);
        }
        Err(error) => Err(error),
        Ok(confirm) => confirm.await,
    };
    let (answer, sent) = match confirmed {
        Ok(Confirmation::Ack(_)) => (Ok(()), Sent::Answered),
        Ok(Confirmation::Nack(_)) => (Err(refused(&message)), Sent::Answered),
        Ok(Confirmation::NotRequested) => {
            let text = format!("{}: the channel does not confirm", doing(&message));
            let error = Error::new(ErrorKind::Connection, text).but_maybe_enqueued();
            (Err(error), Sent::Lost(false))
        }
        Err(error) => {
            let missing = code(&error) == Some(NOT_FOUND);
            (Err(lost(&message).because(error)), Sent::Lost(missing))
        }
    };
    let _ = request.answer.send(answer);
    sent
}

fn refused(message: &Message) -> Error {
    let text = format!(
        "{}: the broker refused the message (basic.nack); its queue has no quorum, or a policy \
         limits its length",
        doing(message)
    );
    Error::new(ErrorKind::Refused, text)
}
