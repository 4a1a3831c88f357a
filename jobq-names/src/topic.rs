//! The rule for the topics of events and the patterns of subscribers.

use std::fmt;

/// The longest topic or pattern, in bytes. A routing key has at most 255, and the one of
/// an event that waits begins with the digits of its wait.
pub const MAX_LENGTH: usize = 200;

/// The most `#` in one pattern: what `RabbitMQ` 4.3 takes ("uses 3 '#' wildcards, at most 2
/// are allowed").
const MOST_HASHES: usize = 2;

/// Checks the topic of an event: words with single dots between them, without white
/// space, `*` and `#`.
///
/// # Errors
///
/// A topic that breaks the rule, with the part that does.
///
/// ```
/// use jobq_names::topic;
///
/// assert!(topic::check("user.created").is_ok());
/// assert!(topic::check("user.*").is_err());
/// ```
pub fn check(topic: &str) -> Result<(), TopicError> {
    examine(topic, Kind::Topic)
}

/// Checks the pattern of a subscriber: a topic in which `*` may stand for a word and `#`
/// for any number of words.
///
/// # Errors
///
/// A pattern that breaks the rule, with the part that does.
///
/// ```
/// use jobq_names::topic;
///
/// assert!(topic::check_pattern("user.*").is_ok());
/// assert!(topic::check_pattern("user.cre*").is_err());
/// ```
pub fn check_pattern(pattern: &str) -> Result<(), TopicError> {
    examine(pattern, Kind::Pattern)
}

fn examine(text: &str, kind: Kind) -> Result<(), TopicError> {
    let problem = if text.is_empty() {
        Problem::Empty
    } else if text.len() > MAX_LENGTH {
        Problem::TooLong(text.len())
    } else if let Some(c) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Problem::Character(c)
    } else if let Some(problem) = text.split('.').find_map(|word| kind.problem_of(word)) {
        problem
    } else if text.matches('#').count() > MOST_HASHES {
        Problem::Hashes(text.matches('#').count())
    } else {
        return Ok(());
    };
    Err(TopicError { text: text.chars().take(MAX_LENGTH).collect(), kind, problem })
}

/// Why a text is no topic or no pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicError {
    text: String,
    kind: Kind,
    problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Topic,
    Pattern,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Empty,
    TooLong(usize),
    Character(char),
    EmptyWord,
    /// A wildcard in a topic.
    Wildcard(char),
    /// A wildcard that is not the whole word.
    Part(String),
    Hashes(usize),
}

impl Kind {
    fn problem_of(self, word: &str) -> Option<Problem> {
        let wildcard = word.chars().find(|c| "*#".contains(*c));
        match (self, wildcard) {
            _ if word.is_empty() => Some(Problem::EmptyWord),
            (Self::Topic, Some(wildcard)) => Some(Problem::Wildcard(wildcard)),
            (Self::Pattern, Some(_)) if word.len() > 1 => Some(Problem::Part(word.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, example) = match self.kind {
            Kind::Topic => ("topic", "user.created"),
            Kind::Pattern => ("topic pattern", "user.*"),
        };
        write!(f, "`{}` is not a valid {what}: ", self.text)?;
        match &self.problem {
            Problem::Empty => f.write_str("it is empty")?,
            Problem::TooLong(length) => {
                write!(f, "it has {length} bytes, more than the limit of {MAX_LENGTH}")?;
            }
            Problem::Character(c) => write!(f, "it contains {c:?}")?,
            Problem::EmptyWord => f.write_str("it has a leading, trailing or doubled dot")?,
            Problem::Wildcard(c) => {
                write!(f, "`{c}` is a wildcard, allowed only in the patterns of subscribers")?;
            }
            Problem::Part(word) => {
                write!(f, "`*` and `#` must each be a whole word, unlike in `{word}`")?;
            }
            Problem::Hashes(count) => {
                write!(f, "it has {count} `#`, but RabbitMQ allows at most {MOST_HASHES}")?;
            }
        }
        write!(f, "; use words separated by single dots, such as `{example}`")
    }
}

impl std::error::Error for TopicError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_follow_the_rule() {
        for good in ["a", "user.created", "orders/eu.größe:1", "0", &"x".repeat(MAX_LENGTH)] {
            assert_eq!(check(good), Ok(()), "{good}");
            assert_eq!(check_pattern(good), Ok(()), "{good}");
        }
        let table = [
            ("", "it is empty"),
            ("user created", "it contains ' '"),
            ("user\0", "it contains '\\0'"),
            (".user", "it has a leading, trailing or doubled dot"),
            ("user.", "it has a leading, trailing or doubled dot"),
            ("user..created", "it has a leading, trailing or doubled dot"),
            (".", "it has a leading, trailing or doubled dot"),
            (&"x".repeat(MAX_LENGTH + 1), "it has 201 bytes, more than the limit of 200"),
        ];
        for (bad, expected) in table {
            for error in [check(bad).unwrap_err(), check_pattern(bad).unwrap_err()] {
                assert!(error.to_string().contains(expected), "{bad}: {error}");
            }
        }
    }

    #[test]
    fn wildcards_are_whole_words_of_patterns() {
        for good in ["*", "#", "user.*", "*.created", "#.created.#", "*.*.#"] {
            assert_eq!(check_pattern(good), Ok(()), "{good}");
            let error = check(good).unwrap_err().to_string();
            assert!(
                error.contains("is a wildcard, allowed only in the patterns of subscribers"),
                "{error}"
            );
        }
        for bad in ["user*", "#user", "**", "a.b#.c"] {
            let error = check_pattern(bad).unwrap_err().to_string();
            assert!(error.contains("must each be a whole word"), "{error}");
        }
        let error = check_pattern("#.a.#.b.#").unwrap_err().to_string();
        assert!(error.contains("it has 3 `#`, but RabbitMQ allows at most 2"), "{error}");
    }
}
