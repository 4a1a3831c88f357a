//! A ledger that is none of jobq's: whoever enqueues a job, runs it or kills something
//! appends one line to a file, and at the end it is compared with what jobq still has.
//!
//! The order of its lines is the order of events, over all processes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use jobq::JobId;

/// A file to which several processes append their lines.
#[derive(Debug, Clone)]
pub struct Ledger {
    file: Arc<File>,
    who: Arc<str>,
    on_disk: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The job is done.
    Completed,
    /// It is to be tried again.
    Again,
    /// It failed for good.
    Failed,
}

impl End {
    const ALL: [(Self, &str); 3] =
        [(Self::Completed, "completed"), (Self::Again, "again"), (Self::Failed, "failed")];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(end, _)| *end == self).map_or("", |(_, word)| word)
    }

    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(end, _)| *end)
    }
}

/// What was said to a caller of `enqueue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// `Ok`.
    Accepted,
    /// An error after which the job may be there.
    InDoubt,
    /// An error after which it is not.
    Refused,
}

impl Answer {
    const ALL: [(Self, &str); 3] =
        [(Self::Accepted, "accepted"), (Self::InDoubt, "in-doubt"), (Self::Refused, "refused")];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(answer, _)| *answer == self).map_or("", |(_, word)| word)
    }

    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(answer, _)| *answer)
    }

    /// The answer that a result is.
    #[must_use]
    pub fn to(result: &jobq::Result<JobId>) -> Self {
        match result {
            Ok(_) => Self::Accepted,
            Err(error) if error.maybe_enqueued() => Self::InDoubt,
            Err(_) => Self::Refused,
        }
    }
}

impl Ledger {
    /// Opens it for one who writes under this name, a word. Each line is on the disk when
    /// it is written.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened.
    pub fn open(path: &Path, who: &str) -> io::Result<Self> {
        let file = Arc::new(File::options().append(true).create(true).open(path)?);
        Ok(Self { file, who: who.into(), on_disk: true })
    }

    /// Leaves it to the system when lines are on the disk: they outlive their process.
    #[must_use]
    pub fn without_disk(mut self) -> Self {
        self.on_disk = false;
        self
    }

    /// One write of a few bytes to a file opened for appending is not interleaved.
    fn line(&self, line: &str) {
        let write = || {
            (&*self.file).write_all(line.as_bytes())?;
            if self.on_disk { self.file.sync_data() } else { Ok(()) }
        };
        let written = if self.on_disk { tokio::task::block_in_place(write) } else { write() };
        written.expect("the ledger can be written");
    }

    /// A job is about to be enqueued: it takes so many attempts, and then completes or
    /// `fails`.
    pub fn enqueues(&self, job: JobId, attempts: u32, fails: bool) {
        let end = if fails { End::Failed } else { End::Completed };
        self.line(&format!("enqueues {job} {attempts} {}\n", end.word()));
    }

    /// What came of that.
    pub fn answered(&self, job: JobId, answer: Answer) {
        self.line(&format!("answered {job} {}\n", answer.word()));
    }

    /// An attempt begins.
    pub fn begins(&self, job: JobId, attempt: u32) {
        self.line(&format!("begins {job} {attempt} {}\n", self.who));
    }

    /// An attempt is over.
    pub fn ends(&self, job: JobId, attempt: u32, end: End) {
        self.line(&format!("ends {job} {attempt} {} {}\n", self.who, end.word()));
    }

    /// Somebody who wrote here is about to be killed.
    pub fn kills(&self, whom: &str) {
        self.line(&format!("kills {whom}\n"));
    }

    /// The broker is about to be killed, and with it all connections.
    pub fn kills_the_broker(&self) {
        self.kills(BROKER);
    }
}

/// Has everything in its hands.
pub(crate) const BROKER: &str = "broker";
