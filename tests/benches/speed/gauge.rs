//! What this process takes of time and memory.

use std::fs;
use std::time::Instant;

use anyhow::Context as _;

use crate::sample::Sample;

/// Measures from when it was made.
#[derive(Debug)]
pub(crate) struct Gauge {
    begin: Instant,
    cpu_micros: u64,
}

impl Gauge {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self { cpu_micros: cpu_micros()?, begin: Instant::now() })
    }

    /// The figures for so many jobs.
    pub(crate) fn read(&self, jobs: u32) -> anyhow::Result<Sample> {
        let seconds = self.begin.elapsed().as_secs_f64();
        let cpu_micros = cpu_micros()?.saturating_sub(self.cpu_micros);
        Ok(Sample { jobs, seconds, cpu_micros, resident_kb: most_resident_kb()?, latency: None })
    }
}

/// All threads, user and system, by the scheduler's own count: nanoseconds, where the ticks
/// of `/proc/self/stat` are 10 ms.
fn cpu_micros() -> anyhow::Result<u64> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task")? {
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
