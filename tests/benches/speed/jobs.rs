//! The jobs, which are the same on both sides, and what counts them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;
use jobq::{BoxError, State, job};
use tokio::sync::Notify;

use crate::case::Case;
use crate::gauge::Gauge;
use crate::sample::Sample;
use crate::scenario::{PACE, Scenario};

/// A job that does nothing: 100 bytes of JSON, if nothing else is asked for. Its fields are plain, so
/// that a release build does not decode what it has encoded.
#[job(retries = 1, delay = "1s")]
pub(crate) async fn work(
    /// When it was enqueued, in microseconds of this process.
    at: u64,
    text: String,
    done: State<Arc<Done>>,
) -> Result<(), BoxError> {
    drop(text);
    done.ran(at);
    Ok(())
}

/// Counts the jobs that ended, and how long each took to start.
#[derive(Debug)]
pub(crate) struct Done {
    begin: Instant,
    jobs: u32,
    bytes: usize,
    count: AtomicU32,
    first: Notify,
    all: Notify,
    latency: Option<Mutex<Histogram<u64>>>,
}

impl Done {
    /// For the jobs of this run.
    pub(crate) fn new(case: &Case) -> Arc<Self> {
        // Up to ten minutes in microseconds; what is above the highest counts as that.
        let histogram = Histogram::new_with_bounds(1, 600_000_000, 3).expect("these are allowed");
        Arc::new(Self {
            begin: Instant::now(),
            jobs: case.jobs,
            bytes: case.shape.bytes,
            count: AtomicU32::new(0),
            first: Notify::new(),
            all: Notify::new(),
            latency: (case.scenario == Scenario::Latency).then(|| Mutex::new(histogram)),
        })
    }

    /// A job that is enqueued now.
    pub(crate) fn job(&self) -> Work {
        let at = u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let digits = at.checked_ilog10().unwrap_or(0) as usize + 1;
        Work { at, text: "x".repeat(self.bytes - r#"{"at":,"text":""}"#.len() - digits) }
    }

    /// A job has run.
    pub(crate) fn ran(&self, at: u64) {
        if let Some(latency) = &self.latency {
            let now = u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX);
            let mut latency = latency.lock().unwrap_or_else(PoisonError::into_inner);
            latency.saturating_record(now.saturating_sub(at));
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count == 1 {
            self.first.notify_one();
        }
        if count == self.jobs {
            self.all.notify_one();
        }
    }

    /// What the jobs from the first one on cost, without what a worker does before it.
    pub(crate) async fn gauge(&self) -> anyhow::Result<Sample> {
        self.first.notified().await;
        let (gauge, before) = (Gauge::start()?, self.count.load(Ordering::Relaxed));
        self.all().await;
        gauge.read(self.jobs.saturating_sub(before).max(1))
    }

    /// Returns when all have run.
    pub(crate) async fn all(&self) {
        self.all.notified().await;
    }

    /// Half of the jobs, and 99 of 100, started within so many microseconds.
    pub(crate) fn latency(&self) -> Option<[u64; 2]> {
        let latency = self.latency.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some([0.5, 0.99].map(|share| latency.value_at_quantile(share)))
    }
}

/// When each job of a steady stream is to be enqueued.
pub(crate) async fn pace(begin: Instant, number: u32) {
    let due = begin + std::time::Duration::from_secs(1) * number / PACE;
    tokio::time::sleep_until(due.into()).await;
}
