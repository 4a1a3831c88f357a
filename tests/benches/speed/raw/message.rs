//! What plain `lapin` sends beside a payload, and to which exchange.

use std::sync::LazyLock;
use std::time::SystemTime;

use jobq::{Job as _, JobId};
use jobq_tests::raw::{Raw, headers, text};
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, ExchangeKind};

use crate::jobs::Work;
use crate::scenario::{Side, WAIT_MILLIS};

const EXCHANGE: &str = "raw";
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
        if side == Side::Alike { Self::Job } else { Self::Bare }
    }

    /// Declares the exchange, if it is not there as in every broker, for messages to the queue.
    pub(super) async fn declare(self, raw: &Raw) -> lapin::Result<()> {
        if matches!(self, Self::Bare) {
            return Ok(());
        }
        let orphans = headers([("alternate-exchange", text(ORPHANS))]);
        for (exchange, kind, arguments) in [
            (ORPHANS, ExchangeKind::Fanout, FieldTable::default()),
            (EXCHANGE, ExchangeKind::Direct, orphans),
        ] {
            let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
            raw.channel.exchange_declare(exchange.into(), kind, options, arguments).await?;
        }
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        raw.channel.queue_bind(QUEUE.into(), EXCHANGE.into(), self.key(), options, none).await
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
