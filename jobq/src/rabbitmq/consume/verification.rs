//! Verification that the broker still holds the deliveries of a channel for its consumer, after a
//! suspension of this process.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::ChannelFlowOptions;
use tokio::time::timeout;

use super::session::Session;
use crate::period;
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
    asking: tokio::sync::Mutex<()>,
    answer_limit: Duration,
}

impl Verification {
    /// Watches for suspensions in which the broker may give up this connection.
    pub(super) fn start(up: &ConnectionEpoch) -> Self {
        let heartbeat = up.connection.configuration().heartbeat();
        let (suspension_limit, answer_limit) = limits(heartbeat);
        Self {
            suspensions: SuspensionWatch::start(suspension_limit),
            asking: tokio::sync::Mutex::default(),
            answer_limit,
        }
    }

    /// Whether the broker may have given the deliveries to other consumers.
    pub(super) fn is_needed(&self) -> bool {
        self.suspensions.is_unanswered()
    }
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

impl Session {
    /// Asks the broker on the channel of the deliveries, until it has answered a question that was
    /// asked after the last suspension. Without an answer in time, the session ends.
    pub(super) async fn verify(self: Arc<Self>) {
        let Verification { suspensions, asking, answer_limit } = &self.verification;
        let _turn = asking.lock().await;
        while self.is_alive() && suspensions.is_unanswered() {
            let asked = suspensions.count();
            // It changes nothing: messages flow. What was in the socket before proves nothing.
            let answering = self.channel.channel_flow(ChannelFlowOptions { active: true });
            let answered = self.over.run_until_cancelled(timeout(*answer_limit, answering)).await;
            match answered {
                Some(Ok(Ok(_))) => suspensions.answer(asked),
                // The connection or the channel has ended.
                None | Some(Ok(Err(_))) => self.end(),
                Some(Err(_)) => {
                    tracing::warn!(
                        limit = period::format(*answer_limit),
                        "no answer from the broker after this process was suspended; resubscribing"
                    );
                    self.abandon().await;
                }
            }
        }
    }
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
