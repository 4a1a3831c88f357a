//! The fields of a cron expression, and the parts of their lists.

use super::error::Problem;

/// A field, in the order of the expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

/// A part of a list. The list is in upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// `*` of a field of days.
    AnyDay,
    Value(u32),
    /// A range, a step, or `*` of another field.
    Range {
        first: u32,
        last: u32,
        step: u32,
    },
    /// `L`.
    LastDay,
    /// `LW`.
    LastWorkday,
    /// `15W`.
    NearestWorkday(u32),
    /// `FRIL`.
    LastOf(u32),
    /// `FRI#2`.
    Nth(u32, u32),
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day of month",
            Self::Month => "month",
            Self::Weekday => "day of week",
        }
    }

    /// Its values, as an error names them.
    pub(super) fn values(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0-59",
            Self::Hour => "0-23",
            Self::Day => "1-31, L, LW, or a day and W",
            Self::Month => "1-12 or JAN-DEC",
            Self::Weekday => "0-7, SUN-SAT, a day and L, or a day and #1 to #5",
        }
    }

    /// The first and the last value that `*` stands for.
    pub(super) fn every(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::Day => (1, 31),
            Self::Month => (1, 12),
            Self::Weekday => (0, 6),
        }
    }

    fn is_of_days(self) -> bool {
        matches!(self, Self::Day | Self::Weekday)
    }

    /// Reads a list.
    pub(super) fn parts(self, list: &str) -> Result<Vec<Part>, Problem> {
        let part = |word: &str| match word {
            "" => Err(Problem::EmptyWord(self, list.to_owned())),
            word => self.part(word),
        };
        list.split(',').map(part).collect()
    }

    fn part(self, word: &str) -> Result<Part, Problem> {
        if self.is_of_days() && (word == "*" || word == "?") {
            return Ok(Part::AnyDay);
        }
        if let Some(part) = self.special(word)? {
            return Ok(part);
        }
        let (range, step) = match word.split_once('/') {
            Some((range, step)) => (range, Some(self.step(word, step)?)),
            None => (word, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => self.every(),
            Some((first, last)) => {
                let ends = (self.value(word, first)?, self.value(word, last)?);
                self.range(word, ends, step.unwrap_or(1))?
            }
            None if step.is_none() => return self.value(word, word).map(Part::Value),
            None => {
                self.value(word, range)?;
                let range = word.replacen('/', &format!("-{}/", self.every().1), 1);
                return Err(Problem::StepOfValue { word: word.to_owned(), range });
            }
        };
        Ok(Part::Range { first, last, step: step.unwrap_or(1) })
    }

    /// Checks the ends of a range. Sunday begins or ends the week, as the range needs.
    fn range(
        self,
        word: &str,
        (first, last): (u32, u32),
        step: u32,
    ) -> Result<(u32, u32), Problem> {
        let (begin, end) = self.every();
        let (first, last) = match (self, first, last) {
            (Self::Weekday, 7, 0..7) => (0, last),
            (Self::Weekday, 1.., 0) => (first, 7),
            _ => (first, last),
        };
        if first <= last {
            return Ok((first, last));
        }
        // The step goes on in the second range where it left the first.
        let next = begin + (step - (end - first + 1) % step) % step;
        let mut ranges = span(first, end, step);
        if next <= last {
            ranges = format!("{ranges},{}", span(next, last, step));
        }
        Err(Problem::Backwards { word: word.to_owned(), ranges })
    }

    /// Reads the forms that only fields of days have.
    fn special(self, word: &str) -> Result<Option<Part>, Problem> {
        Ok(match self {
            Self::Day if word == "L" => Some(Part::LastDay),
            Self::Day if word == "LW" => Some(Part::LastWorkday),
            Self::Day if word.starts_with("L-") => {
                return Err(Problem::BeforeLast(word.to_owned()));
            }
            Self::Day => match word.strip_suffix('W') {
                Some(day) => Some(Part::NearestWorkday(self.value(word, day)?)),
                None => None,
            },
            Self::Weekday if word == "L" => return Err(Problem::LastWeekday),
            Self::Weekday => match (word.split_once('#'), word.strip_suffix('L')) {
                (Some((day, nth)), _) => {
                    let day = self.value(word, day)?;
                    let nth = number(nth).filter(|nth| (1..=5).contains(nth));
                    Some(Part::Nth(day, nth.ok_or_else(|| Problem::Nth(word.to_owned()))?))
                }
                (None, Some(day)) => Some(Part::LastOf(self.value(word, day)?)),
                (None, None) => None,
            },
            _ => None,
        })
    }

    /// Reads a value of a part of a list.
    fn value(self, part: &str, word: &str) -> Result<u32, Problem> {
        if word.is_empty() {
            return Err(Problem::EmptyWord(self, part.to_owned()));
        }
        let (least, greatest) = match self {
            Self::Weekday => (0, 7),
            _ => self.every(),
        };
        let names: &[&str] = match self {
            Self::Month => &MONTHS,
            Self::Weekday => &WEEKDAYS,
            _ => &[],
        };
        let by_name = (least..).zip(names).find(|(_, name)| **name == word);
        by_name
            .map(|(value, _)| value)
            .or_else(|| number(word).filter(|value| (least..=greatest).contains(value)))
            .ok_or_else(|| Problem::Value(self, word.to_owned()))
    }

    fn step(self, word: &str, step: &str) -> Result<u32, Problem> {
        let step = number(step).filter(|step| (1..=self.every().1).contains(step));
        step.ok_or_else(|| Problem::Step(self, word.to_owned()))
    }
}

/// Reads digits alone: `+5` is not a number.
fn number(word: &str) -> Option<u32> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

/// Writes a range.
fn span(first: u32, last: u32, step: u32) -> String {
    match step {
        _ if first == last => first.to_string(),
        1 => format!("{first}-{last}"),
        step => format!("{first}-{last}/{step}"),
    }
}

impl Part {
    pub(super) fn is_value(&self) -> bool {
        matches!(self, Self::Value(_))
    }

    /// The values as bits, or none if they depend on the month.
    pub(super) fn numbers(&self) -> u64 {
        match *self {
            Self::Value(value) => 1 << value,
            Self::Range { first, last, step } => {
                (first..=last).step_by(step as usize).fold(0, |bits, value| bits | 1 << value)
            }
            _ => 0,
        }
    }
}
