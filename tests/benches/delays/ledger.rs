//! The jobs that wait, and what is written down when they start.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobq::{BoxError, State, job};
use tokio::sync::Notify;

use crate::lateness::Lateness;

/// The parts of the time over which jobs are due.
pub(crate) const PARTS: u32 = 10;

/// A job that is due at a time, in microseconds since 1970.
#[job(retries = 0)]
pub(crate) async fn measured(
    number: u32,
    due: u64,
    ledger: State<Arc<Ledger>>,
) -> Result<(), BoxError> {
    ledger.write(number as usize, UNIX_EPOCH + Duration::from_micros(due))
}

/// What became of each job.
#[derive(Debug)]
pub(crate) struct Ledger {
    begin: SystemTime,
    over: Duration,
    entries: Mutex<Entries>,
    complete: Notify,
}

/// What was written.
#[derive(Debug, Clone)]
pub(crate) struct Entries {
    /// How often each job started.
    starts: Vec<u8>,
    /// How many jobs have started.
    pub(crate) started: usize,
    /// How many starts there were beyond each job's first.
    pub(crate) again: usize,
    /// How many came before their time.
    pub(crate) early: usize,
    /// How late those were that were due in each part of the time.
    pub(crate) lateness: [Lateness; PARTS as usize],
}

impl Ledger {
    /// For so many jobs that are due from `begin` on.
    pub(crate) fn new(jobs: u32, begin: SystemTime, over: Duration) -> Arc<Self> {
        let entries = Entries {
            starts: vec![0; jobs as usize],
            started: 0,
            again: 0,
            early: 0,
            lateness: std::array::from_fn(|_| Lateness::new()),
        };
        Arc::new(Self { begin, over, entries: Mutex::new(entries), complete: Notify::new() })
    }

    fn write(&self, number: usize, due: SystemTime) -> Result<(), BoxError> {
        let now = SystemTime::now();
        let part = due.duration_since(self.begin).unwrap_or_default().as_micros();
        let part = usize::try_from(part * u128::from(PARTS) / self.over.as_micros())?;
        let mut guard = self.entries();
        let entries = &mut *guard;
        let starts = entries.starts.get_mut(number).ok_or("no such job")?;
        *starts = starts.saturating_add(1);
        if *starts > 1 {
            entries.again += 1;
            return Ok(());
        }
        entries.started += 1;
        let lateness = entries.lateness.get_mut(part).ok_or("no such time")?;
        match now.duration_since(due) {
            Ok(late) => lateness.record(late),
            Err(_) => entries.early += 1,
        }
        if entries.started == entries.starts.len() {
            self.complete.notify_one();
        }
        Ok(())
    }

    /// Ends when every job has started.
    pub(crate) async fn complete(&self) {
        self.complete.notified().await;
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
