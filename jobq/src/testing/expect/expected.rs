//! What an assertion expects.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::job::{Event, Job, codec};

/// What an assertion expects: at least one job or event that matches a pattern, or that has a topic.
pub struct Expected<'c> {
    pub(super) kind: Kind,
    /// The name of the job, or the topic.
    pub(super) name: &'static str,
    /// The pattern with its guard, as the user wrote it, or the topic.
    pub(super) pattern: &'static str,
    /// How many are to match; `None` for at least one.
    pub(super) count: Option<usize>,
    /// How soon they are due.
    pub(super) within: Option<&'static str>,
    /// Whether a payload matches the pattern, or why it cannot be read.
    pub(super) check: Box<Check<'c>>,
}

type Check<'c> = dyn Fn(&[u8]) -> Result<Compared, String> + 'c;

/// Whether a payload matches a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It does.
    Matches,
    /// It matches without its guard, whose text this is.
    GuardIsFalse(&'static str),
    /// It does not.
    Differs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Jobs of a type.
    Job,
    /// Events of a type.
    Event,
    /// Events of any type under a topic.
    Topic,
}

impl<'c> Expected<'c> {
    /// A job that matches this pattern. `check` compares a payload with it.
    #[must_use]
    pub fn job<J: Job>(pattern: &'static str, check: impl Fn(&J) -> Compared + 'c) -> Self {
        Self::new(Kind::Job, J::NAME, pattern, reading(check))
    }

    /// An event that matches this pattern. `check` compares an event with it.
    #[must_use]
    pub fn event<E: Event + DeserializeOwned>(
        pattern: &'static str,
        check: impl Fn(&E) -> Compared + 'c,
    ) -> Self {
        Self::new(Kind::Event, E::TOPIC, pattern, reading(check))
    }

    /// An event under this topic.
    #[must_use]
    pub fn topic(topic: &'static str) -> Self {
        Self::new(Kind::Topic, topic, topic, Box::new(|_| Ok(Compared::Matches)))
    }

    /// As many.
    #[must_use]
    pub fn count(self, count: usize) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Due within this period, which the macro has checked.
    #[must_use]
    pub fn within(self, period: &'static str) -> Self {
        Self { within: Some(period), ..self }
    }

    fn new(kind: Kind, name: &'static str, pattern: &'static str, check: Box<Check<'c>>) -> Self {
        Self { kind, name, pattern, count: None, within: None, check }
    }
}

fn reading<'c, T: DeserializeOwned>(check: impl Fn(&T) -> Compared + 'c) -> Box<Check<'c>> {
    Box::new(move |payload| match codec::decode(payload) {
        Ok(value) => Ok(check(&value)),
        Err(error) => Err(error.to_string()),
    })
}

impl fmt::Debug for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expected").field("pattern", &self.pattern).finish_non_exhaustive()
    }
}
