//! The text form of the times of a periodic job: `"30 2 * * MON-FRI"`.

mod error;
mod field;

use error::Problem;
use field::{Field, Part};

pub use error::CronError;

/// The times of day and the days that a cron expression names.
///
/// ```
/// use jobq_names::cron;
///
/// let cron = cron::parse("30 2 * * MON-FRI")?;
/// assert_eq!(cron.hours().collect::<Vec<_>>(), [2]);
/// assert!(cron.has_fixed_times());
/// # Ok::<(), cron::CronError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: Days,
    weekdays: Weekdays,
    /// Whether a day needs only one of the two.
    either: bool,
    fixed: bool,
}

/// The days of a month.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Days {
    /// `*`.
    any: bool,
    numbers: u64,
    /// `L`.
    last: bool,
    /// `LW`.
    last_workday: bool,
    /// `15W`.
    nearest_workdays: u64,
}

/// The days of a week, each a bit: Sunday is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Weekdays {
    /// `*`.
    any: bool,
    every: u64,
    /// `FRI#2`: the second Friday is bit 5 of entry 1.
    nth: [u64; 5],
    /// `FRIL`.
    last: u64,
}

/// A day of a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 6; Sunday is 0.
    pub weekday: u32,
    /// The number of days of the month.
    pub days_in_month: u32,
}

/// The lengths of the months in a leap year.
const LONGEST_MONTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The texts that stand for five fields.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Parses a cron expression. `jobq::schedule::Schedule::cron` documents the fields.
///
/// # Errors
///
/// Any other text, with the part that is wrong, and a text that no day matches, such as
/// `0 0 30 2 *`.
///
/// ```
/// use jobq_names::cron;
///
/// assert!(cron::parse("*/10 9-17 * * MON-FRI").is_ok());
/// assert_eq!(
///     cron::parse("0 25 * * *").unwrap_err().to_string(),
///     "`0 25 * * *` is not a valid cron expression: `25` is not a valid hour (0-23)",
/// );
/// ```
pub fn parse(text: &str) -> Result<Cron, CronError> {
    read(text).map_err(|problem| CronError::new(text, problem))
}

fn read(text: &str) -> Result<Cron, Problem> {
    let fields = fields_of(text.trim())?.to_ascii_uppercase();
    let words: Vec<&str> = fields.split_ascii_whitespace().collect();
    if let Some(zone) = words.first().filter(|word| word.contains("TZ=")) {
        return Err(Problem::Zone((*zone).to_owned()));
    }
    let (second, words) = match words.len() {
        5 => ("0", words.as_slice()),
        6 => (words[0], &words[1..]),
        number => return Err(Problem::Fields(number)),
    };
    let seconds = Field::Second.parts(second)?;
    let minutes = Field::Minute.parts(words[0])?;
    let hours = Field::Hour.parts(words[1])?;
    let cron = Cron {
        fixed: [&seconds, &minutes, &hours].into_iter().flatten().all(Part::is_value),
        seconds: numbers(&seconds),
        minutes: numbers(&minutes),
        hours: numbers(&hours),
        days: Days::new(&Field::Day.parts(words[2])?),
        months: numbers(&Field::Month.parts(words[3])?),
        weekdays: Weekdays::new(&Field::Weekday.parts(words[4])?),
        either: [words[2], words[4]].iter().all(|list| !list.starts_with(['*', '?'])),
    };
    if cron.has_days() { Ok(cron) } else { Err(Problem::Never) }
}

/// The fields that a text stands for.
fn fields_of(text: &str) -> Result<&str, Problem> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, fields)| *fields).ok_or_else(|| Problem::Nickname(text.to_owned()))
}

/// The values of a field, as bits.
fn numbers(parts: &[Part]) -> u64 {
    parts.iter().fold(0, |numbers, part| numbers | part.numbers())
}

/// The numbers of bits that are set.
fn set_bits(bits: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| has(bits, *bit))
}

fn has(bits: u64, bit: u32) -> bool {
    bits >> bit & 1 == 1
}

impl Cron {
    /// The hours, in order.
    pub fn hours(&self) -> impl Iterator<Item = u32> + use<> {
        set_bits(self.hours)
    }

    /// The minutes of each hour, in order.
    pub fn minutes(&self) -> impl Iterator<Item = u32> + use<> {
        set_bits(self.minutes)
    }

    /// The seconds of each minute, in order.
    pub fn seconds(&self) -> impl Iterator<Item = u32> + use<> {
        set_bits(self.seconds)
    }

    /// Whether second, minute and hour are values or lists of values: fixed times, each due once a
    /// day. A `*`, a range or a step in one of them makes the times intervals. The two kinds differ on
    /// days with a clock change.
    #[must_use]
    pub fn has_fixed_times(&self) -> bool {
        self.fixed
    }

    /// Whether days of this month can match.
    #[must_use]
    pub fn has_month(&self, month: u32) -> bool {
        has(self.months, month)
    }

    /// Whether the job is due on this day.
    #[must_use]
    pub fn has_day(&self, day: Day) -> bool {
        let (days, weekdays) = (self.days.has(day), self.weekdays.has(day));
        self.has_month(day.month) && if self.either { days || weekdays } else { days && weekdays }
    }

    /// Whether any month has a day that matches.
    fn has_days(&self) -> bool {
        self.days.any
            || self.either
            || set_bits(self.months).any(|month| {
                let length = LONGEST_MONTHS[month as usize - 1];
                let days = self.days.numbers | self.days.nearest_workdays;
                self.days.last || self.days.last_workday || set_bits(days).any(|day| day <= length)
            })
    }
}

impl Days {
    fn new(parts: &[Part]) -> Self {
        let mut days = Self { numbers: numbers(parts), ..Self::default() };
        for part in parts {
            match part {
                Part::AnyDay => days.any = true,
                Part::LastDay => days.last = true,
                Part::LastWorkday => days.last_workday = true,
                Part::NearestWorkday(day) => days.nearest_workdays |= 1 << day,
                _ => {}
            }
        }
        days
    }

    fn has(&self, day: Day) -> bool {
        let last = day.days_in_month;
        self.any
            || has(self.numbers, day.day)
            || self.last && day.day == last
            || self.last_workday && day.is_workday_nearest_to(last)
            || set_bits(self.nearest_workdays)
                .any(|number| number <= last && day.is_workday_nearest_to(number))
    }
}

impl Day {
    /// Whether this is the day from Monday to Friday that is nearest to a day of its month.
    fn is_workday_nearest_to(self, number: u32) -> bool {
        let weekday_of = |day: u32| (self.weekday + 35 + day - self.day) % 7;
        let nearest = match weekday_of(number) {
            6 if number == 1 => 3,
            6 => number - 1,
            0 if number == self.days_in_month => number - 2,
            0 => number + 1,
            _ => number,
        };
        self.day == nearest
    }
}

impl Weekdays {
    fn new(parts: &[Part]) -> Self {
        // Sunday is also 7.
        let sunday = |days: u64| (days | days >> 7) & 0x7f;
        let mut weekdays = Self { every: sunday(numbers(parts)), ..Self::default() };
        for part in parts {
            match part {
                Part::AnyDay => weekdays.any = true,
                Part::LastOf(day) => weekdays.last |= sunday(1 << day),
                Part::Nth(day, nth) => weekdays.nth[*nth as usize - 1] |= sunday(1 << day),
                _ => {}
            }
        }
        weekdays
    }

    fn has(&self, day: Day) -> bool {
        let nth = (day.day - 1) / 7;
        self.any
            || has(self.every, day.weekday)
            || has(self.nth[nth as usize], day.weekday)
            || has(self.last, day.weekday) && day.day + 7 > day.days_in_month
    }
}

#[cfg(test)]
mod tests;
