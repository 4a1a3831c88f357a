//! The spans of attempts in processes that are killed: each outcome is a line of a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jobq::{Propagation, Trace};
use tracing::field::{Field, Visit};
use tracing::span::{Id, Record};
use tracing::{Span, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::{fmt, registry};

use crate::account::Account;
use crate::decisions;
use crate::ledger::End;

/// Writes down the outcomes that spans record.
#[derive(Debug)]
pub struct Outcomes {
    file: File,
    who: String,
}

/// The file beside this ledger.
fn beside(ledger: &Path) -> PathBuf {
    ledger.with_extension("spans")
}

impl Outcomes {
    /// Installs it for a process with this name in the ledger, whose warnings go to stderr: they
    /// are what explains a duplicate.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened.
    ///
    /// # Panics
    ///
    /// If there is another subscriber.
    pub fn install(ledger: &Path, who: &str) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(beside(ledger))?;
        let outcomes = Self { file, who: who.to_owned() };
        let warnings = fmt::layer().with_ansi(false).with_writer(io::stderr);
        let subscriber = registry().with(outcomes).with(warnings.with_filter(LevelFilter::WARN));
        tracing::subscriber::set_global_default(subscriber).expect("there is no other");
        Ok(())
    }
}

impl<S: Subscriber> Layer<S> for Outcomes {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut Line(self));
    }
}

struct Line<'o>(&'o Outcomes);

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "jobq.outcome" {
            let line = format!("{} {value}\n", self.0.who);
            (&self.0.file).write_all(line.as_bytes()).expect("the file can be written");
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// A propagation without a context, with which jobq makes the spans.
#[derive(Debug)]
pub struct NoContext;

impl Propagation for NoContext {
    fn inject(&self, _: &Span, _: &mut dyn FnMut(&str, &str)) {}

    fn extract(&self, _: &Span, _: &dyn Fn(&str) -> Option<String>, _: Trace) {}
}

/// The ends of attempts that the spans lack: those of a process that was killed between an end and
/// the decision. `None` if the processes made no spans.
///
/// # Panics
///
/// If spans tell what did not happen, or lack an end of a process that was not killed.
#[must_use]
pub fn missing(account: &Account, ledger: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(beside(ledger)).ok()?;
    let end = |word: &str| match word {
        "completed" => Some(End::Completed),
        "retried" => Some(End::Again),
        "failed" => Some(End::Failed),
        // The function did not end.
        _ => None,
    };
    Some(decisions::missing(account, &text, end))
}
