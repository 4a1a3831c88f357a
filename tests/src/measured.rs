//! What benchmarks share: a store of their own, the figures of processes, and arguments.

pub mod table;

use std::fs;
use std::time::Duration;

use crate::broker::Broker;
use crate::files::Directory;

/// A store of one benchmark.
#[derive(Debug)]
pub enum Measured {
    /// A private broker, with the id of its process and the URL of its management API, if it has
    /// one.
    Broker(Box<Broker>, u32, Option<String>),
    /// An empty folder for a job file.
    File(Directory),
}

impl Measured {
    /// A store of this engine: `rabbitmq`, the broker of this machine or of
    /// `JOBQ_TEST_BROKER_ROOT`, or `sqlite`. `None` for any other name.
    ///
    /// # Panics
    ///
    /// If the broker does not tell its process.
    pub async fn new(engine: &str) -> Option<Self> {
        match engine {
            "sqlite" => Some(Self::File(Directory::new())),
            "rabbitmq" => Some(Self::on(Broker::start().await, None).await),
            _ => None,
        }
    }

    /// [`new`](Self::new), with the management API of a broker.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub async fn with_management(engine: &str) -> Option<Self> {
        if engine != "rabbitmq" {
            return Self::new(engine).await;
        }
        let (broker, management) = Broker::with_management("a benchmark").await?;
        Some(Self::on(broker, Some(management)).await)
    }

    async fn on(broker: Broker, management: Option<String>) -> Self {
        let pid = broker.ctl(&["eval", "list_to_integer(os:getpid())."]).await;
        let pid = pid.trim().parse().expect("the id of a process");
        Self::Broker(Box::new(broker), pid, management)
    }

    /// Where clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Broker(broker, ..) => broker.url(),
            Self::File(folder) => folder.url("jobs.db"),
        }
    }

    /// The process of the broker.
    #[must_use]
    pub fn broker(&self) -> Option<u32> {
        match self {
            Self::Broker(_, pid, _) => Some(*pid),
            Self::File(_) => None,
        }
    }

    /// The URL of the broker's management API, if it has one.
    #[must_use]
    pub fn management(&self) -> Option<&str> {
        match self {
            Self::Broker(_, _, management) => management.as_deref(),
            Self::File(_) => None,
        }
    }
}

/// The processor time of a process so far.
///
/// # Panics
///
/// If there is no such process.
#[must_use]
pub fn used(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(')').expect("the name of the program");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().expect("a number of ticks")).sum();
    // Linux counts in hundredths of a second for programs.
    Duration::from_millis(ticks * 10)
}

/// The resident memory of a process, in KiB; 0 if it has ended.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// The arguments of a benchmark; `None`, after the usage was printed, if it has none or is run as
/// a test: `cargo bench` passes `--bench`, `cargo test --all-targets` does not.
#[must_use]
pub fn arguments(usage: &str) -> Option<Vec<String>> {
    let mut words: Vec<_> = std::env::args().skip(1).collect();
    let given = words.len();
    words.retain(|word| word != "--bench");
    if words.len() == given || words.is_empty() {
        println!("{usage}");
        return None;
    }
    Some(words)
}

/// The number after an option, or its default.
///
/// # Panics
///
/// If no number follows the option.
#[must_use]
pub fn number(words: &[String], option: &str, default: usize) -> usize {
    let Some(place) = words.iter().position(|word| word == option) else { return default };
    let given = words.get(place + 1).and_then(|word| word.parse().ok());
    given.unwrap_or_else(|| panic!("a number after {option}"))
}

/// The median, the lowest and the highest of some figures.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn spread(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[figures.len() / 2], figures[0], figures[figures.len() - 1])
}
