//! What a [ledger](crate::ledger) says, compared with what jobq has at the end.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use jobq::{FailedJob, JobId};

use crate::ledger::{Answer, BROKER, End};

/// The content of a ledger.
#[derive(Debug, Default)]
pub struct Account {
    jobs: HashMap<JobId, Life>,
    /// The lines at which somebody was killed, by his name.
    kills: HashMap<String, Vec<usize>>,
    /// How many attempts ended, by whose they were and how they did.
    ends: HashMap<(String, End), usize>,
    lines: usize,
    offset: u64,
}

/// What happened to one job.
#[derive(Debug, Default)]
struct Life {
    /// The line at which it was about to be enqueued.
    since: usize,
    attempts: u32,
    fails: bool,
    answer: Option<Answer>,
    /// The attempts in their order, with their lines and whose they were.
    begun: Vec<(u32, usize, String)>,
    completed: bool,
    failed: bool,
}

impl Life {
    fn is_accepted(&self) -> bool {
        self.answer == Some(Answer::Accepted)
    }

    /// Whether it has made its last attempt.
    fn is_over(&self) -> bool {
        if self.fails { self.failed } else { self.completed }
    }
}

/// The comparison.
#[derive(Debug, Default)]
pub struct Report {
    /// Jobs whose `enqueue` was `Ok`.
    pub accepted: usize,
    /// Those of them that completed.
    pub completed: usize,
    /// Those that are among the failed jobs.
    pub failed: usize,
    /// Those of which there is neither.
    pub lost: Vec<JobId>,
    /// Jobs that are in their queues.
    pub still_there: u64,
    /// Jobs that nobody could say of whether they were enqueued, and those of them that
    /// were.
    pub in_doubt: (usize, usize),
    /// Jobs that were certainly not enqueued.
    pub refused: usize,
    /// Attempts that began again, and failed jobs that are there twice.
    pub duplicates: usize,
    /// Those for which nobody died who had the job in hand.
    pub unexplained: Vec<String>,
    /// Everything else that must not be.
    pub wrong: Vec<String>,
}

impl Account {
    /// Reads what was written since the last time.
    ///
    /// # Panics
    ///
    /// If the file cannot be read, or is no ledger.
    pub fn read(&mut self, path: &Path) {
        let Ok(mut file) = File::open(path) else {
            return;
        };
        file.seek(SeekFrom::Start(self.offset)).expect("a ledger can be read");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("a ledger can be read");
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        self.offset += bytes.len() as u64;
        let text = String::from_utf8(bytes).expect("a ledger is text");
        self.note(&text);
    }

    pub(crate) fn note(&mut self, text: &str) {
        for line in text.lines() {
            self.lines += 1;
            self.note_line(line).unwrap_or_else(|| panic!("no line of a ledger: {line}"));
        }
    }

    fn note_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<_> = line.split(' ').collect();
        if let ["kills", who] = words[..] {
            self.kills.entry(who.to_owned()).or_default().push(self.lines);
            return Some(());
        }
        let job = self.jobs.entry(words.get(1)?.parse().ok()?).or_default();
        match words[..] {
            ["enqueues", _, attempts, end] => {
                job.since = self.lines;
                job.attempts = attempts.parse().ok()?;
                job.fails = End::of(end)? == End::Failed;
            }
            ["answered", _, answer] => job.answer = Some(Answer::of(answer)?),
            ["begins", _, attempt, who] => {
                job.begun.push((attempt.parse().ok()?, self.lines, who.to_owned()));
            }
            ["ends", _, _, who, end] => {
                let end = End::of(end)?;
                *self.ends.entry((who.to_owned(), end)).or_default() += 1;
                match end {
                    End::Completed => job.completed = true,
                    End::Failed => job.failed = true,
                    End::Again => {}
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// How many lines were read.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// How many jobs were accepted, and how many jobs have ended.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        let accepted = self.jobs.values().filter(|life| life.is_accepted()).count();
        (accepted, self.jobs.values().filter(|life| life.completed || life.failed).count())
    }

    /// Whether every accepted job has made its last attempt.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.jobs.values().all(|life| life.is_over() || !life.is_accepted())
    }

    /// The accepted jobs that have not made their last attempt, each with what happened to it.
    pub fn open_jobs(&self) -> impl Iterator<Item = String> {
        let is_open = |life: &Life| life.is_accepted() && !life.is_over();
        let jobs = self.jobs.iter().filter(move |(_, life)| is_open(life));
        jobs.map(|(id, life)| format!("{id}: {life:?}"))
    }

    /// The attempts of a job, in the order in which they began.
    #[must_use]
    pub fn attempts(&self, job: JobId) -> Vec<u32> {
        let begun = self.jobs.get(&job).map(|life| life.begun.as_slice()).unwrap_or_default();
        begun.iter().map(|(attempt, ..)| *attempt).collect()
    }

    /// How many attempts began in all.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.jobs.values().map(|life| life.begun.len()).sum()
    }

    /// How many attempts run, where none of those that began was killed.
    #[must_use]
    pub fn running(&self) -> usize {
        self.begun() - self.ends.values().sum::<usize>()
    }

    /// How many attempts of each writer ended so.
    #[must_use]
    pub fn ends(&self) -> &HashMap<(String, End), usize> {
        &self.ends
    }

    /// Whether this writer was killed.
    #[must_use]
    pub fn is_killed(&self, who: &str) -> bool {
        self.kills.contains_key(who)
    }

    /// Whether this writer has begun an attempt.
    #[must_use]
    pub fn has_begun(&self, who: &str) -> bool {
        self.jobs.values().flat_map(|life| &life.begun).any(|(_, _, other)| other == who)
    }

    /// How many of those who had begun a job were killed.
    #[must_use]
    pub fn deaths(&self, job: JobId) -> usize {
        let begun = self.jobs.get(&job).map(|life| life.begun.as_slice()).unwrap_or_default();
        let killed = begun.iter().map(|(.., who)| who).filter(|who| self.kills.contains_key(*who));
        killed.collect::<BTreeSet<_>>().len()
    }

    /// The accepted jobs that fail and are not among these.
    #[must_use]
    pub fn not_among(&self, failed: &[FailedJob]) -> usize {
        let failed: BTreeSet<_> = failed.iter().map(FailedJob::id).collect();
        let missing =
            |(id, life): &(&JobId, &Life)| life.is_accepted() && life.fails && !failed.contains(id);
        self.jobs.iter().filter(missing).count()
    }

    /// Compares it with what jobq has: these failed jobs, and so many in their queues.
    #[must_use]
    pub fn judge(&self, failed: &[JobId], still_there: u64) -> Report {
        let mut report = Report { still_there, ..Report::default() };
        let mut times = HashMap::<JobId, usize>::new();
        for id in failed {
            *times.entry(*id).or_default() += 1;
            if !self.jobs.contains_key(id) {
                report.wrong.push(format!("{id} is among the failed jobs and was never enqueued"));
            }
        }
        for (id, life) in &self.jobs {
            let times = times.get(id).copied().unwrap_or_default();
            self.judge_one(&mut report, *id, life, times);
        }
        report
    }

    fn judge_one(&self, report: &mut Report, id: JobId, life: &Life, failures: usize) {
        let seen = !life.begun.is_empty() || failures > 0;
        let mut wrong = |what: &str| report.wrong.push(format!("{id} {what}: {life:?}"));
        if failures > 0 && !life.fails {
            wrong("is among the failed jobs and should have completed");
        }
        let begun: BTreeSet<_> = life.begun.iter().map(|(attempt, ..)| *attempt).collect();
        match life.answer {
            Some(Answer::Accepted) => {
                report.accepted += 1;
                match (life.completed, failures > 0) {
                    (true, false) => report.completed += 1,
                    (false, true) => report.failed += 1,
                    (true, true) => wrong("completed and is among the failed jobs"),
                    (false, false) => report.lost.push(id),
                }
                let expected: BTreeSet<_> = (1..=life.attempts).collect();
                if seen && begun != expected {
                    report.wrong.push(format!("{id} made other attempts than expected: {life:?}"));
                }
            }
            Some(Answer::Refused) => {
                report.refused += 1;
                if seen {
                    wrong("was refused and is there all the same");
                }
            }
            // Whoever would have been answered was killed.
            Some(Answer::InDoubt) | None => {
                report.in_doubt.0 += 1;
                report.in_doubt.1 += usize::from(seen);
            }
        }
        for (index, (attempt, line, _)) in life.begun.iter().enumerate() {
            if life.begun[..index].iter().all(|(other, ..)| other != attempt) {
                continue;
            }
            report.duplicates += 1;
            if !self.explains(life, *line) {
                let kills = &self.kills;
                let what = format!(
                    "attempt {attempt} of {id} began again at line {line}: {life:?}, kills at the \
                     lines {kills:?}"
                );
                report.unexplained.push(what);
            }
        }
        if failures > 1 {
            report.duplicates += failures - 1;
            if !self.explains(life, usize::MAX) {
                report.unexplained.push(format!("{id} failed {failures} times: {life:?}"));
            }
        }
    }

    /// Whether somebody who had the job in hand was killed before this line: the broker
    /// after the job was handed to it, or a worker that had begun it.
    fn explains(&self, life: &Life, before: usize) -> bool {
        let killed = |who: &str, from: usize| {
            let lines = self.kills.get(who).map(Vec::as_slice).unwrap_or_default();
            lines.iter().any(|line| (from..before).contains(line))
        };
        let in_hand = |(_, line, who): &(u32, usize, String)| *line < before && killed(who, 0);
        killed(BROKER, life.since) || life.begun.iter().any(in_hand)
    }
}

impl Report {
    /// # Panics
    ///
    /// If anything is lost, left, not explained or wrong.
    pub fn assert_nothing_lost(&self) {
        let some = |list: &[String]| list.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.lost.is_empty(), "{self}: {:?}", self.lost);
        assert!(self.wrong.is_empty(), "{self}:\n{}", some(&self.wrong));
        assert!(self.unexplained.is_empty(), "{self}:\n{}", some(&self.unexplained));
        assert_eq!(self.still_there, 0, "{self}");
        assert_eq!(self.accepted, self.completed + self.failed, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "accepted {} = completed {} + failed {} + still there {}; lost {}, duplicates {} \
             ({} not explained), in doubt {} ({} of them were there), refused {}, wrong {}",
            self.accepted,
            self.completed,
            self.failed,
            self.still_there,
            self.lost.len(),
            self.duplicates,
            self.unexplained.len(),
            self.in_doubt.0,
            self.in_doubt.1,
            self.refused,
            self.wrong.len(),
        )
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
