//! What was logged or shown while a test ran.

use std::fmt::{Debug, Display};
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::test_store::until;

/// Everything that was written to it or to a clone of it: a writer for `tracing_subscriber`.
#[derive(Debug, Clone, Default)]
pub struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl Write for LogCapture {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogCapture {
    /// What this process logs from its first call on, at `INFO` and above.
    ///
    /// # Panics
    ///
    /// If the process has another subscriber already.
    #[must_use]
    pub fn log() -> &'static Self {
        static LOG: LazyLock<LogCapture> = LazyLock::new(|| {
            let seen = LogCapture::default();
            let writer = seen.clone();
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
            seen
        });
        &LOG
    }

    /// The lines with all of these words.
    #[must_use]
    pub fn lines(&self, words: &[&str]) -> Vec<String> {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        self.text().lines().filter(has_all).map(str::to_owned).collect()
    }

    /// All of it.
    #[must_use]
    pub fn text(&self) -> String {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// How often this is in it.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.text().matches(what).count()
    }

    /// Shows it a thing as debugging does.
    ///
    /// # Panics
    ///
    /// Never: memory can be written.
    pub fn debug(&mut self, thing: &impl Debug) {
        writeln!(self, "{thing:?} {thing:#?}").expect("memory can be written");
    }

    /// Shows it an error in all its forms.
    ///
    /// # Panics
    ///
    /// Never: memory can be written.
    pub fn error(&mut self, error: &(impl Display + Debug)) {
        writeln!(self, "{error}").expect("memory can be written");
        self.debug(error);
    }

    /// Waits until this was logged once more than before.
    pub async fn once_more(&self, what: &str, before: usize) {
        until(what, async || (self.count(what) > before).then_some(())).await;
    }
}
