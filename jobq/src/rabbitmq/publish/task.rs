//! The task that keeps a channel to publish on, listens for the answers of the broker, and
//! sends what had to wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::gate::Gate;
use super::largest::Largest;
use super::open::{Ended, Open, Spare, Unconfirmed, WINDOW};
use super::publication::Request;
use crate::error::Result;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::connection::link::{Link, backoff};
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::topology::declared::Declared;

/// How long the answers of a lost channel are waited for.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

pub(super) async fn run(
    link: Link,
    declared: Arc<Declared>,
    gate: Arc<Gate>,
    largest: Arc<Largest>,
    requests: mpsc::UnboundedReceiver<Request>,
) {
    let (unsent, spare) = (VecDeque::new(), Spare::default());
    let mut task = Task { link: link.clone(), gate, requests, unsent, spare, largest };
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
        let ended = task.serve(&up, channel).await;
        if !up.connection.status().connected() {
            // The next one may lead to another node, or to settings that were changed.
            task.largest.forget();
        }
        match ended {
            Ended::Done => return,
            Ended::Lost => (),
            // The broker lost an exchange, or somebody deleted it.
            Ended::Missing => restored = None,
        }
        waits = backoff();
    }
    // Closed: the requests are dropped, and their callers learn it from that.
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

struct Task {
    link: Link,
    gate: Arc<Gate>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// What can still be taken back.
    unsent: VecDeque<Request>,
    spare: Spare,
    largest: Arc<Largest>,
}

impl Task {
    /// Publishes on a channel until it ends.
    async fn serve(&mut self, up: &Up, channel: Channel) -> Ended {
        let open = Arc::new(Open::new(
            channel,
            up.cork.clone(),
            self.spare.clone(),
            Arc::clone(&self.largest),
        ));
        self.gate.open(Arc::clone(&open));
        let ended = self.work(up, &open).await;
        self.gate.close();
        let _ = timeout(LAST_ANSWERS, open.until(Unconfirmed::is_empty)).await;
        open.give_up();
        if open.unconfirmed().ended == Some(Ended::Missing) { Ended::Missing } else { ended }
    }

    async fn work(&mut self, up: &Up, open: &Arc<Open>) -> Ended {
        let link = self.link.clone();
        let mut lost = std::pin::pin!(link.lost(up.generation));
        let mut batch = Vec::with_capacity(WINDOW);
        loop {
            let blocked = link.is_blocked();
            if !blocked && !self.send_on(open) {
                return Ended::Lost;
            }
            let waits = !blocked && !self.unsent.is_empty();
            let news = if waits { Unconfirmed::has_place_or_ended } else { Unconfirmed::has_ended };
            tokio::select! {
                biased;
                () = open.until(news) => if let Some(ended) = open.unconfirmed().ended {
                    return ended;
                },
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
    fn send_on(&mut self, open: &Arc<Open>) -> bool {
        while let Some(request) = self.unsent.pop_front() {
            let is_alive = open.is_alive();
            if !is_alive || !self.gate.send(open, &request) {
                self.unsent.push_front(request);
                return is_alive;
            }
        }
        true
    }
}
