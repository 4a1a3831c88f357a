//! The record of actions of this dashboard.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::show::first_line;

/// The most records.
const RECORDS: usize = 500;

/// The most characters of a text of a record: a filter may have megabytes.
const CHARACTERS: usize = 500;

/// An action of somebody.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) at: SystemTime,
    pub(crate) actor: String,
    pub(crate) action: &'static str,
    /// The queue, pool or job.
    pub(crate) target: String,
    pub(crate) result: String,
    /// The operation on failed jobs, if it was one.
    pub(crate) operation: Option<u64>,
}

/// The last records, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Activities(Mutex<VecDeque<Record>>);

impl Activities {
    pub(crate) fn add(&self, mut record: Record) {
        record.target = first_line(&record.target, CHARACTERS);
        record.result = first_line(&record.result, CHARACTERS);
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.push_front(record);
        records.truncate(RECORDS);
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
