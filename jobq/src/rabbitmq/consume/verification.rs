//! Verification that the broker still holds the deliveries of a channel for its consumer, after a
//! suspension of this process.

use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::ChannelFlowOptions;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::suspension::SuspensionWatch;

/// RabbitMQ closes a connection that takes no bytes for this long (`send_timeout` in
/// `tcp_listen_options`), whatever its heartbeat is.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// The suspensions that a session has to notice, and the limit of an answer.
#[derive(Debug)]
pub(super) struct Verification {
    suspensions: Arc<SuspensionWatch>,
    /// The slots that wait share one question.
    turns: Mutex<()>,
    answer_limit: Duration,
}

impl Verification {
    /// Watches for suspensions in which the broker may give up this connection.
    pub(super) fn start(up: &ConnectionEpoch) -> Self {
        let heartbeat = up.connection.configuration().heartbeat();
        let (suspension_limit, answer_limit) = limits(heartbeat);
        Self {
            suspensions: SuspensionWatch::start(suspension_limit),
            turns: Mutex::default(),
            answer_limit,
        }
    }

    /// Whether the broker may have given the deliveries to other consumers.
    pub(super) fn is_needed(&self) -> bool {
        self.suspensions.is_unanswered()
    }

    /// Waits until nobody else asks.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.lock().await
    }

    /// Asks the broker on the channel of the deliveries.
    pub(super) async fn ask(&self, channel: &Channel, over: &CancellationToken) -> Answer {
        let asked = self.suspensions.count();
        // It changes nothing: messages flow. What was in the socket before proves nothing.
        let answer = channel.channel_flow(ChannelFlowOptions { active: true });
        match over.run_until_cancelled(timeout(self.answer_limit, answer)).await {
            Some(Ok(Ok(_))) => {
                self.suspensions.answer(asked);
                Answer::Given
            }
            None | Some(Ok(Err(_))) => Answer::Ended,
            Some(Err(_)) => Answer::Missing(self.answer_limit),
        }
    }
}

/// The result of a question to the broker.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// The channel has its deliveries still.
    Given,
    /// The connection or the channel has ended.
    Ended,
    /// Nothing came within this limit.
    Missing(Duration),
}

/// The longest suspension after which nothing has to be verified, and how long the broker may take
/// to answer, on a connection with this heartbeat in seconds; 0 is none.
fn limits(heartbeat: u16) -> (Duration, Duration) {
    let heartbeat = match heartbeat {
        0 => SEND_TIMEOUT,
        seconds => Duration::from_secs(seconds.into()),
    };
    (heartbeat.min(SEND_TIMEOUT) / 2, heartbeat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_follow_from_the_heartbeat_and_from_what_the_broker_waits_for_a_socket() {
        for (heartbeat, suspension, answer) in
            [(1, 500, 1), (4, 2_000, 4), (20, 7_500, 20), (600, 7_500, 600), (0, 7_500, 15)]
        {
            let expected = (Duration::from_millis(suspension), Duration::from_secs(answer));
            assert_eq!(limits(heartbeat), expected, "{heartbeat}");
        }
    }
}
