//! What plain `lapin` sends beside a payload, and to which exchange.

use std::sync::LazyLock;
use std::time::SystemTime;

use jobq::{Job as _, JobId};
use jobq_tests::raw::{Raw, headers, text};
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, ExchangeKind};

use crate::jobs::Work;
use crate::scenario::{Side, WAIT_MILLIS};

const EXCHANGE: &str = "raw";
/// Where a job goes that has failed, and where when it has waited.
const RETRY: &str = "raw-retry";
const DELIVER: &str = "raw-deliver";
const ORPHANS: &str = "raw-orphan";

/// The queue of the jobs.
pub(super) const QUEUE: &str = "raw";

/// The form of messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// As little as can be, by the default exchange.
    Bare,
    /// What a message of jobq says, by an exchange that loses none.
    Job,
}

impl Form {
    pub(super) fn of(side: Side) -> Self {
        if side == Side::Bare { Self::Bare } else { Self::Job }
    }

    /// Declares the queue of the jobs and the tier in which they wait for their retry, as safe
    /// as those of jobq, and the ways there.
    pub(super) async fn declare(self, raw: &Raw) -> lapin::Result<()> {
        if matches!(self, Self::Job) {
            declare_exchanges(raw).await?;
        }
        let tier = format!("{QUEUE}-wait");
        let limit = ("x-delivery-limit", AMQPValue::LongLongInt(i64::from(i32::MAX)));
        let wait = ("x-message-ttl", AMQPValue::LongUInt(WAIT_MILLIS));
        for (queue, own, (exchange, next), ways) in [
            (QUEUE, limit, (RETRY, &*tier), &[EXCHANGE, DELIVER][..]),
            (&tier, wait, (DELIVER, QUEUE), &[RETRY]),
        ] {
            let options = QueueDeclareOptions { durable: true, ..Default::default() };
            let dead = self.dead_letters(exchange, next).into_iter();
            let arguments = headers(dead.chain([own, ("x-queue-type", text("quorum"))]));
            raw.channel.queue_declare(queue.into(), options, arguments).await?;
            let ways = if matches!(self, Self::Job) { ways } else { &[] };
            for exchange in ways {
                let (options, none) = (QueueBindOptions::default(), FieldTable::default());
                let (queue, exchange) = (queue.into(), (*exchange).into());
                raw.channel.queue_bind(queue, exchange, self.key(), options, none).await?;
            }
        }
        Ok(())
    }

    /// Has a queue's dead letters moved at least once: by this exchange under the key that they
    /// have, or straight to the next queue.
    fn dead_letters(self, exchange: &str, next: &str) -> Vec<(&'static str, AMQPValue)> {
        let mut arguments = vec![
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-overflow", text("reject-publish")),
        ];
        match self {
            Self::Bare => arguments.extend([
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text(next)),
            ]),
            Self::Job => arguments.push(("x-dead-letter-exchange", text(exchange))),
        }
        arguments
    }

    /// The routing key. That of a job says how long it waits before its retry.
    pub(super) fn key(self) -> ShortString {
        static JOB: LazyLock<String> = LazyLock::new(|| format!("{QUEUE}@{WAIT_MILLIS}"));
        match self {
            Self::Bare => QUEUE.into(),
            Self::Job => JOB.as_str().into(),
        }
    }

    pub(super) fn exchange(self) -> &'static str {
        match self {
            Self::Bare => "",
            Self::Job => EXCHANGE,
        }
    }

    pub(super) fn properties(self) -> BasicProperties {
        let persistent = BasicProperties::default().with_delivery_mode(2);
        match self {
            Self::Bare => persistent.with_content_type("application/json".into()),
            Self::Job => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                persistent
                    .with_message_id(JobId::new().to_string().into())
                    .with_type(Work::NAME.into())
                    .with_timestamp(since.map_or(0, |since| since.as_secs()))
            }
        }
    }
}

/// Exchanges that pass on what has no queue, so that none is lost.
async fn declare_exchanges(raw: &Raw) -> lapin::Result<()> {
    let orphans = headers([("alternate-exchange", text(ORPHANS))]);
    let direct = |name| (name, ExchangeKind::Direct, orphans.clone());
    for (exchange, kind, arguments) in [
        (ORPHANS, ExchangeKind::Fanout, FieldTable::default()),
        direct(EXCHANGE),
        direct(RETRY),
        direct(DELIVER),
    ] {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        raw.channel.exchange_declare(exchange.into(), kind, options, arguments).await?;
    }
    Ok(())
}
