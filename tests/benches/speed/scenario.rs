//! What is measured, on which engine and by whom.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;

/// Where the jobs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    RabbitMq,
    Sqlite,
}

/// Who handles them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The library that jobq is on, used as well as can be, with the guarantees of jobq: on
    /// RabbitMQ with messages like jobq's, by exchanges that lose none.
    Equal,
    /// Plain `lapin` with bare payloads, by the default exchange.
    Bare,
    Jobq,
}

/// What is done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// 64 callers, each enqueues one job and waits until it is accepted.
    Enqueue,
    /// All are handed over at once.
    EnqueueAll,
    /// Jobs that are there are run.
    Drain,
    /// 64 callers enqueue while the jobs are run.
    Both,
    /// Each job fails once, waits for a second and runs again.
    Retry,
    /// 500 jobs a second, from the call to the start.
    Latency,
}

/// How many callers enqueue side by side.
pub(crate) const CALLERS: usize = 64;
/// How long a job waits that failed.
pub(crate) const WAIT_MILLIS: u32 = 1_000;
/// How many jobs a second are enqueued where the latency is measured.
pub(crate) const PACE: u32 = 500;
/// How many jobs run at once.
pub(crate) const CONCURRENCY: u16 = 100;
/// How many jobs are taken ahead: what jobq takes of jobs that need no time.
pub(crate) const PREFETCH: u16 = CONCURRENCY + 256;
/// How many publishes may be unconfirmed.
pub(crate) const WINDOW: usize = 1_000;
/// How many jobs one transaction of SQLite inserts or takes.
pub(crate) const BATCH: usize = 256;

impl Scenario {
    pub(crate) const ALL: [Self; 6] =
        [Self::Enqueue, Self::EnqueueAll, Self::Drain, Self::Both, Self::Retry, Self::Latency];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::EnqueueAll => "enqueue_all",
            Self::Drain => "drain",
            Self::Both => "both",
            Self::Retry => "retry",
            Self::Latency => "latency",
        }
    }

    /// So many that a run takes some seconds.
    pub(crate) fn jobs(self, engine: Engine) -> u32 {
        match (self, engine) {
            (Self::Latency, _) => 10 * PACE,
            (Self::Retry, Engine::RabbitMq) => 20_000,
            (Self::EnqueueAll, Engine::Sqlite) => 400_000,
            _ => 100_000,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match Self::ALL.into_iter().find(|scenario| scenario.name() == text) {
            Some(scenario) => Ok(scenario),
            None => bail!("`{text}` is no scenario; there are {:?}", Self::ALL.map(Self::name)),
        }
    }
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RabbitMq => "rabbitmq",
            Self::Sqlite => "sqlite",
        }
    }
}

impl FromStr for Engine {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "rabbitmq" => Self::RabbitMq,
            "sqlite" => Self::Sqlite,
            _ => bail!("`{text}` is neither rabbitmq nor sqlite"),
        })
    }
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Bare => "bare",
            Self::Jobq => "jobq",
        }
    }
}

impl FromStr for Side {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "equal" => Self::Equal,
            "bare" => Self::Bare,
            "jobq" => Self::Jobq,
            _ => bail!("`{text}` is not equal, bare or jobq"),
        })
    }
}
