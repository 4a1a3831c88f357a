//! The log of the command: lines on standard error.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::table::visible;

/// The filter without `--log`: what an operator changes, and what is wrong.
pub(crate) const DEFAULT_FILTER: &str = "jobq=warn,jobq::audit=info";

/// The most lines that are kept while something is drawn on the terminal.
const MOST_KEPT: usize = 1_000;

/// The lines that are kept while something is drawn on the terminal.
static KEPT: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<VecDeque<String>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a filter: levels, or targets with levels, with commas between them.
pub(crate) fn filter(text: &str) -> Result<Targets, String> {
    // An empty variable counts as none.
    let text = if text.is_empty() { DEFAULT_FILTER } else { text };
    Targets::from_str(text).map_err(|error| {
        format!(
            "{error}; write a level (`off`, `error`, `warn`, `info`, `debug`, `trace`) or targets with \
             levels, such as `{DEFAULT_FILTER}`"
        )
    })
}

/// Writes the lines that pass the filter from now on.
pub(crate) fn start(filter: Targets) {
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Lines);
    tracing_subscriber::registry().with(lines).with(filter).init();
}

/// Keeps the lines that would disturb what is drawn on the terminal, until the guard is dropped, which
/// writes them.
pub(crate) fn keep() -> Keeping {
    if io::stderr().is_terminal() {
        kept().get_or_insert_default();
    }
    Keeping
}

/// Lines are kept as long as this is.
#[derive(Debug)]
#[must_use = "the lines are written when it is dropped"]
pub(crate) struct Keeping;

impl Drop for Keeping {
    fn drop(&mut self) {
        for line in kept().take().unwrap_or_default() {
            write(&line);
        }
    }
}

/// Writes one event at a time.
struct Lines;

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        // A field may have the text of another program: it is one line, and obeyed by no terminal.
        let line = visible(text.trim_end_matches('\n')) + "\n";
        match kept().as_mut() {
            Some(lines) => {
                if lines.len() == MOST_KEPT {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
            None => write(&line),
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line that cannot be written is left out.
fn write(line: &str) {
    let _ = io::stderr().lock().write_all(line.as_bytes());
}
