//! The task that keeps a channel to publish on, listens for the answers of the broker, and
//! sends what had to wait.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::gate::{Gate, Open, Sending, WINDOW};
use super::request::{Request, Sent};
use crate::engine::rabbitmq::cork::CorkedTask;
use crate::engine::rabbitmq::declare::{Declared, open};
use crate::engine::rabbitmq::failure::failure;
use crate::engine::rabbitmq::link::{Link, backoff};
use crate::engine::rabbitmq::up::Up;
use crate::error::Result;

/// How long the answers of a lost channel are waited for.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

pub(super) async fn run(
    link: Link,
    declared: Arc<Declared>,
    gate: Arc<Gate>,
    requests: mpsc::UnboundedReceiver<Request>,
) {
    let answers = Answers::new(Arc::clone(&gate));
    let unsent = VecDeque::new();
    let mut task = Task { link: link.clone(), gate, requests, unsent, answers };
    let mut waits = backoff();
    let mut restored = None;
    while let Ok(up) = link.up().await {
        if restored != Some(up.generation) {
            let restoring = up.answer("declaring the queues again", declared.restore(&up));
            if let Err(error) = restoring.await {
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
        match task.serve(&up, channel).await {
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
    let _ = timeout(wait.unwrap_or_default(), link.lost(up.generation)).await;
}

pub(crate) async fn open_confirming(up: &Up) -> Result<Channel> {
    let channel = open(up).await?;
    let doing = "asking for confirms";
    let confirming = async {
        let confirming = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirming.map_err(|error| failure(doing, error))
    };
    up.answer(doing, confirming).await?;
    Ok(channel)
}

/// Why a channel is not published on any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Nobody can ask for anything any more.
    Done,
    Lost,
    /// As lost, because an exchange is missing.
    Missing,
}

struct Task {
    link: Link,
    gate: Arc<Gate>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// What can still be taken back.
    unsent: VecDeque<Request>,
    answers: Answers,
}

impl Task {
    /// Publishes on a channel until it ends.
    async fn serve(&mut self, up: &Up, channel: Channel) -> Ended {
        let task = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let open = Open::new(channel, up.cork.waker(task));
        self.gate.open(open.clone());
        let ended = self.work(up, &open).await;
        self.gate.close();
        if self.answers.end().await { Ended::Missing } else { ended }
    }

    async fn work(&mut self, up: &Up, open: &Open) -> Ended {
        let link = self.link.clone();
        let mut lost = std::pin::pin!(link.lost(up.generation));
        let mut batch = Vec::with_capacity(WINDOW);
        let mut task = CorkedTask::new(up.cork.clone());
        loop {
            let blocked = link.is_blocked();
            if !blocked && !self.send_on(open) {
                return Ended::Lost;
            }
            tokio::select! {
                biased;
                ended = poll_fn(|cx| {
                    let cx = &mut Context::from_waker(task.waker(cx.waker()));
                    self.answers.poll(cx)
                }) => {
                    if let Some(ended) = ended {
                        return ended;
                    }
                }
                count = self.requests.recv_many(&mut batch, WINDOW) => {
                    if count == 0 {
                        return Ended::Done;
                    }
                    self.unsent.extend(batch.drain(..));
                }
                () = link.unblocked(), if blocked => (),
                () = &mut lost => return Ended::Lost,
            }
        }
    }

    /// Sends what waits, as far as there is room in the window. False where the channel has
    /// ended.
    fn send_on(&mut self, open: &Open) -> bool {
        while !self.unsent.is_empty() {
            if !open.is_alive() {
                return false;
            }
            let Some(room) = open.room() else {
                break;
            };
            if let Some(request) = self.unsent.pop_front() {
                self.gate.send(open, request, room);
            }
        }
        true
    }
}

/// What the broker has still to answer.
struct Answers {
    gate: Arc<Gate>,
    sending: FuturesUnordered<Sending>,
    /// Empty between two polls.
    sent: Vec<Sending>,
}

impl Answers {
    fn new(gate: Arc<Gate>) -> Self {
        Self { gate, sending: FuturesUnordered::new(), sent: Vec::new() }
    }

    /// Takes all answers that are there, and is ready where there was one; then with why
    /// the channel has ended, if it has. What is answered together goes on together.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended>> {
        self.listen();
        let (mut ended, mut answered) = (None, false);
        while let Poll::Ready(Some(sent)) = self.sending.poll_next_unpin(cx) {
            answered = true;
            match sent {
                Sent::Answered => (),
                Sent::Lost => ended = ended.or(Some(Ended::Lost)),
                Sent::Missing => ended = Some(Ended::Missing),
            }
        }
        if answered { Poll::Ready(ended) } else { Poll::Pending }
    }

    /// Listens for the answers to what was sent.
    fn listen(&mut self) {
        self.gate.sent(&mut self.sent);
        self.sending.extend(self.sent.drain(..));
    }

    /// Waits for the last ones on a channel that has ended, which fails them; true if it
    /// ended for want of an exchange.
    async fn end(&mut self) -> bool {
        self.listen();
        let mut missing = false;
        let rest = async {
            while let Some(sent) = self.sending.next().await {
                missing |= sent == Sent::Missing;
            }
        };
        let _ = timeout(LAST_ANSWERS, rest).await;
        self.sending.clear();
        missing
    }
}
