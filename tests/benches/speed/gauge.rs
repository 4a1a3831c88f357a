//! What this process takes of time and memory, and what the broker takes of time for it.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

use anyhow::Context as _;

use crate::sample::Sample;

/// The number of the broker's process, where there is one.
pub(crate) const BROKER: &str = "JOBQ_BENCH_BROKER";

/// Measures from when it was made.
#[derive(Debug)]
pub(crate) struct Gauge {
    begin: Instant,
    own: Clock,
    broker: Option<Clock>,
}

/// The time of processors that a process has used since.
#[derive(Debug)]
struct Clock {
    threads: PathBuf,
    begin_micros: u64,
}

impl Gauge {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let broker = env::var(BROKER).ok().map(|process| Clock::start(&process)).transpose()?;
        Ok(Self { own: Clock::start("self")?, broker, begin: Instant::now() })
    }

    /// The figures for so many jobs.
    pub(crate) fn read(&self, jobs: u32) -> anyhow::Result<Sample> {
        Ok(Sample {
            jobs,
            seconds: self.begin.elapsed().as_secs_f64(),
            cpu_micros: self.own.read()?,
            broker_micros: self.broker.as_ref().map(Clock::read).transpose()?,
            resident_kb: most_resident_kb()?,
            latency: None,
        })
    }
}

impl Clock {
    fn start(process: &str) -> anyhow::Result<Self> {
        let threads = Path::new("/proc").join(process).join("task");
        Ok(Self { begin_micros: cpu_micros(&threads)?, threads })
    }

    fn read(&self) -> anyhow::Result<u64> {
        Ok(cpu_micros(&self.threads)?.saturating_sub(self.begin_micros))
    }
}

/// All of these threads, user and system, by the scheduler's own count: nanoseconds, where the
/// ticks of `/proc/self/stat` are 10 ms.
fn cpu_micros(threads: &Path) -> anyhow::Result<u64> {
    let mut nanos = 0;
    for thread in fs::read_dir(threads)? {
        let Ok(schedstat) = fs::read_to_string(thread?.path().join("schedstat")) else {
            // It has just ended.
            continue;
        };
        let first = schedstat.split_whitespace().next().context("the time of a thread")?;
        nanos += first.parse::<u64>()?;
    }
    Ok(nanos / 1_000)
}

fn most_resident_kb() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.and_then(|rest| rest.trim().strip_suffix(" kB"));
    Ok(most.context("the process has memory")?.parse()?)
}
