//! Errors of cron expressions.

use std::fmt;

use super::NICKNAMES;
use super::field::Field;

/// The error of a text that is not a cron expression. Its message names the wrong part and says what
/// to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// The number of fields.
    Fields(usize),
    Nickname(String),
    EmptyWord(Field, String),
    /// `TZ=Europe/Berlin`.
    Zone(String),
    Value(Field, String),
    Step(Field, String),
    /// `5/15`.
    StepOfValue {
        word: String,
        range: String,
    },
    /// A range from the later value to the earlier one, and what to write instead.
    Backwards {
        word: String,
        ranges: String,
    },
    /// `L-3`.
    BeforeLast(String),
    /// `L` as a day of the week.
    LastWeekday,
    /// `FRI#6`.
    Nth(String),
    /// No month has such a day.
    Never,
}

impl CronError {
    pub(super) fn new(text: &str, problem: Problem) -> Self {
        Self { text: text.to_owned(), problem }
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a valid cron expression: ", self.text)?;
        match &self.problem {
            Problem::Fields(0) => f.write_str(
                "it is empty; write minute, hour, day of month, month and day of week, such as \
                 \"30 2 * * *\"",
            ),
            Problem::Fields(number) => {
                let fields = if *number == 1 { "field" } else { "fields" };
                write!(
                    f,
                    "it has {number} {fields}; expected 5 (minute, hour, day of month, month, day \
                     of week), or 6 with the second first"
                )?;
                if *number == 7 { f.write_str("; a year cannot be given") } else { Ok(()) }
            }
            Problem::Nickname(name) if name.to_ascii_lowercase().starts_with("@every") => {
                write!(f, "`{name}` is a period; give it as `every`, without the `@`")
            }
            Problem::Zone(word) => {
                write!(f, "`{word}` is not a part of it; give the time zone as `zone`")
            }
            Problem::Nickname(name) => {
                write!(f, "`{name}` is unknown; expected one of")?;
                for (index, (known, _)) in NICKNAMES.iter().enumerate() {
                    write!(f, "{} {known}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Problem::EmptyWord(field, part) => {
                write!(f, "`{part}` lacks a value of the {} ({})", field.name(), field.values())
            }
            Problem::Value(field, word) => {
                write!(f, "`{word}` is not a valid {} ({})", field.name(), field.values())
            }
            Problem::Step(field, word) => write!(
                f,
                "`{word}` has an invalid step; a step of the {} is from 1 to {}",
                field.name(),
                field.every().1
            ),
            Problem::StepOfValue { word, range } => {
                write!(f, "`{word}` has a step without a range; write `{range}`")
            }
            Problem::Backwards { word, ranges } => {
                write!(f, "the range of `{word}` runs backwards; write `{ranges}`")
            }
            Problem::BeforeLast(word) => write!(
                f,
                "`{word}` is not supported; use `L` (the last day), `LW` (the last day from \
                 Monday to Friday) or a number"
            ),
            Problem::LastWeekday => f.write_str(
                "`L` is not a valid day of week; for the last Friday of a month write `FRIL`, \
                 for each Saturday `SAT`",
            ),
            Problem::Nth(word) => {
                write!(f, "`{word}` is not valid; a day is followed by `#1` to `#5`, as in `FRI#2`")
            }
            Problem::Never => f.write_str("none of its months has such a day"),
        }
    }
}

impl std::error::Error for CronError {}
