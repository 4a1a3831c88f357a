//! The text of a failed assertion.

use std::time::Duration;

use super::Entry;
use super::expected::Kind;
use super::findings::{Findings, Judged, join};
use crate::period;

/// The most jobs or events that a failure lists.
const MAX_LISTED: usize = 20;
/// The most characters of a JSON text that a failure shows.
const MAX_SHOWN: usize = 300;

impl Findings<'_> {
    /// The failure of an `assert_..!`, if it fails.
    pub(super) fn assertion(&self) -> Option<String> {
        let found = self.matches().count();
        let headline = match self.expected.count {
            None if found > 0 => return None,
            None => format!("no {} {}", self.subject(1), self.condition(1)),
            Some(count) if found == count => return None,
            Some(count) => self.expected(&count.to_string(), count, found),
        };
        let mut lines = vec![headline, String::new()];
        if self.expected.count.is_some_and(|count| found > count) {
            lines.extend(self.list(self.matches(), false));
        } else {
            lines.extend(self.list(self.judged.iter(), self.expected.kind != Kind::Topic));
            lines.extend(self.others());
        }
        Some(lines.join("\n"))
    }

    /// The failure of a `refute_..!`, if it fails.
    pub(super) fn refutation(&self) -> Option<String> {
        let found = self.matches().count();
        let mut lines = vec![self.expected("no", 1, found), String::new()];
        lines.extend(self.list(self.matches(), false));
        (found > 0).then(|| lines.join("\n"))
    }

    fn expected(&self, number: &str, count: usize, found: usize) -> String {
        let (subject, condition) = (self.subject(count), self.condition(count));
        format!("expected {number} {subject} that {condition}, found {found}")
    }

    fn subject(&self, count: usize) -> String {
        let noun = match self.expected.kind {
            Kind::Job => "enqueued job",
            Kind::Event | Kind::Topic => "published event",
        };
        let s = if count == 1 { "" } else { "s" };
        let within = self.expected.within.map(|period| format!(" due within {period}"));
        format!("{noun}{s}{}", within.unwrap_or_default())
    }

    fn condition(&self, count: usize) -> String {
        let verb = match (self.expected.kind, count) {
            (Kind::Topic, 1) => "has the topic",
            (Kind::Topic, _) => "have the topic",
            (_, 1) => "matches",
            _ => "match",
        };
        format!("{verb} `{}`", self.expected.pattern)
    }

    /// These jobs or events of the name, with what is to be said of each.
    fn list<'j>(
        &self,
        judged: impl Iterator<Item = &'j Judged>,
        with_verdicts: bool,
    ) -> Vec<String> {
        let judged: Vec<&Judged> = judged.collect();
        let mut lines = Vec::new();
        if let Some(name) = self.heading(judged.is_empty()) {
            lines.push(name);
        }
        for (index, judged) in judged.iter().take(MAX_LISTED).enumerate() {
            let verdict = judged.verdict.clone().filter(|_| with_verdicts);
            let payload = cut(&String::from_utf8_lossy(&judged.entry.payload));
            let texts = [verdict, Some(payload), self.story(&judged.entry)].into_iter().flatten();
            let number = format!("{:>3}. ", index + 1);
            let margins = std::iter::once(number.as_str()).chain(std::iter::repeat("     "));
            lines.extend(margins.zip(texts).map(|(margin, text)| format!("{margin}{text}")));
        }
        if let Some(more) = judged.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
            lines.push(format!("     and {more} more"));
        }
        lines
    }

    fn heading(&self, is_empty: bool) -> Option<String> {
        let name = self.expected.name;
        match self.expected.kind {
            Kind::Job if is_empty && self.others.is_empty() => Some("no job was enqueued".into()),
            Kind::Event | Kind::Topic if is_empty && self.others.is_empty() => {
                Some("no event was published".into())
            }
            Kind::Job if is_empty => Some(format!("no job `{name}` was enqueued")),
            Kind::Event if is_empty => Some(format!("no event `{name}` was published")),
            // The first line says it.
            Kind::Topic if is_empty => None,
            Kind::Job => Some(format!("job `{name}`:")),
            Kind::Event | Kind::Topic => Some(format!("event `{name}`:")),
        }
    }

    /// Where it comes from, when it is due and how it ran.
    fn story(&self, entry: &Entry) -> Option<String> {
        let is_job = self.expected.kind == Kind::Job;
        let verb = if is_job { "enqueued" } else { "published" };
        let place = entry.place.map(|place| format!("{verb} at {place}"));
        let wait = entry.due.duration_since(self.now).unwrap_or_default();
        let due = match wait {
            _ if !is_job => None,
            Duration::ZERO if entry.runs.is_empty() => Some("due now".to_owned()),
            Duration::ZERO => None,
            wait => Some(format!("due in {}", period::format(wait))),
        };
        let runs = (is_job && !entry.runs.is_empty())
            .then(|| format!("has run already: {}", entry.runs.join(", ")));
        join([join([place, due], ", "), runs], "; ")
    }

    /// How many there are of each other name.
    fn others(&self) -> Option<String> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for name in &self.others {
            match counts.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        let noun = if self.expected.kind == Kind::Job { "jobs" } else { "events" };
        let counts: Vec<String> =
            counts.iter().map(|(name, count)| format!("`{name}` {count}")).collect();
        (!counts.is_empty()).then(|| format!("other {noun}: {}", counts.join(", ")))
    }
}

/// The beginning of a text that is too long to show.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
