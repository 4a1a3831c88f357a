//! A recorder of metrics for processes that are killed: each increment is a line of a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobq::metrics::{ATTEMPTS, FAILED};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use crate::account::Account;
use crate::decisions;
use crate::ledger::End;

/// Writes down decisions of workers and reasons of failed jobs.
#[derive(Debug)]
pub struct Increments {
    file: Arc<File>,
    who: String,
}

/// The file beside this ledger.
fn beside(ledger: &Path) -> PathBuf {
    ledger.with_extension("metrics")
}

impl Increments {
    /// Installs it for a process with this name in the ledger.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened.
    ///
    /// # Panics
    ///
    /// If there is another recorder.
    pub fn install(ledger: &Path, who: &str) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(beside(ledger))?;
        let increments = Self { file: Arc::new(file), who: who.to_owned() };
        metrics::set_global_recorder(increments).expect("there is no other");
        Ok(())
    }
}

impl Recorder for Increments {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if ![ATTEMPTS.name, FAILED.name].contains(&key.name()) {
            return Counter::noop();
        }
        // The outcome or the reason.
        let last = key.labels().last().map_or("", metrics::Label::value);
        let line = format!("{} {last}\n", self.who);
        Counter::from_arc(Arc::new(Line { file: Arc::clone(&self.file), line }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

struct Line {
    file: Arc<File>,
    line: String,
}

impl CounterFn for Line {
    /// One write of a few bytes to a file opened for appending is not interleaved, and outlives the
    /// process.
    fn increment(&self, value: u64) {
        for _ in 0..value {
            (&*self.file).write_all(self.line.as_bytes()).expect("the file can be written");
        }
    }

    fn absolute(&self, _: u64) {}
}

/// The ends of attempts that the metrics lack, by what they were: those of a process that was
/// killed between an end and the decision.
///
/// # Panics
///
/// If metrics count what did not happen, or lack an end of a process that was not killed.
#[must_use]
pub fn missing(account: &Account, ledger: &Path) -> usize {
    let text = std::fs::read_to_string(beside(ledger)).expect("the metrics are there");
    let end = |word: &str| match word {
        "completed" => Some(End::Completed),
        "retried" => Some(End::Again),
        "exhausted" | "aborted" => Some(End::Failed),
        // Decided without a call, or counted by its reason.
        _ => None,
    };
    decisions::missing(account, &text, end)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use jobq::JobId;

    use super::*;
    use crate::files::Directory;
    use crate::ledger::Ledger;

    /// What is missing in these lines, after attempt 1 was retried and attempt 2 completed.
    fn missing_in(lines: &str, is_killed: bool) -> Option<usize> {
        let folder = Directory::new();
        let path = folder.file("ledger");
        let ledger = Ledger::open(&path, "a").unwrap().without_disk();
        let job = JobId::new();
        for (attempt, end) in [(1, End::Again), (2, End::Completed)] {
            ledger.begins(job, attempt);
            ledger.ends(job, attempt, end);
        }
        if is_killed {
            ledger.kills("a");
        }
        std::fs::write(beside(&path), lines).unwrap();
        let mut account = Account::default();
        account.read(&path);
        catch_unwind(AssertUnwindSafe(|| missing(&account, &path))).ok()
    }

    #[test]
    fn only_a_killed_process_may_lack_an_end() {
        let all = "a retried\na isolated\na completed\n";
        assert_eq!((missing_in(all, false), missing_in(all, true)), (Some(0), Some(0)));
        let fewer = "a retried\n";
        assert_eq!((missing_in(fewer, false), missing_in(fewer, true)), (None, Some(1)));
        let more = "a retried\na completed\na completed\n";
        assert_eq!((missing_in(more, false), missing_in(more, true)), (None, None));
        let other = "a retried\na completed\nb completed\n";
        assert_eq!(missing_in(other, true), None);
    }
}
