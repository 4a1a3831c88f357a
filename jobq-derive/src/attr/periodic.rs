//! The keys of periodic jobs.

use syn::LitStr;

use super::entry::{self, Entry};
use super::value::{self, Period, Texts};
use crate::mistakes::Mistakes;

/// The times at which a job is enqueued.
#[derive(Default)]
pub(crate) struct PeriodicOptions {
    pub(crate) cron: Option<Texts>,
    pub(crate) every: Option<Period>,
    pub(crate) zone: Option<LitStr>,
    pub(crate) missed: Option<LitStr>,
    pub(crate) jitter: Option<Period>,
}

pub(super) const CRON: &str = "cron = \"30 2 * * *\"";
pub(super) const EVERY: &str = "every = \"10m\"";
pub(super) const ZONE: &str = "zone = \"Europe/Berlin\"";
pub(super) const MISSED: &str = "missed = \"one\"";
pub(super) const JITTER: &str = "jitter = \"5m\"";

const CRONS: &str = "write `cron = \"30 2 * * *\"` or `cron = [\"0 9 * * *\", \"30 17 * * *\"]`";

impl PeriodicOptions {
    /// Whether the job has times.
    pub(crate) fn is_some(&self) -> bool {
        self.cron.is_some() || self.every.is_some()
    }

    /// Sets a key of these. Returns whether it is one.
    pub(super) fn set(&mut self, entry: &Entry, mistakes: &mut Mistakes) -> bool {
        match entry::key_of(entry.example) {
            "cron" => self.cron = value::texts(entry, ("cron expression", CRONS), mistakes),
            "every" => self.every = mistakes.take(value::period(entry)),
            "zone" => self.zone = mistakes.take(value::text(entry)),
            "missed" => self.missed = mistakes.take(value::text(entry)),
            "jitter" => self.jitter = mistakes.take(value::period(entry)),
            _ => return false,
        }
        true
    }
}
