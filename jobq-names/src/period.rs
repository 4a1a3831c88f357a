//! The text form of a duration: `"250ms"`, `"30s"`, `"10m"`, `"1h 30m"`, `"2d"`.

use std::fmt;
use std::time::Duration;

/// The longest period that can be written: 3,650 days.
pub const MAX: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// The units, longest first, each with its length in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a period: one or more of `<number><unit>`, longest unit first, each unit
/// at most once, with or without spaces between them. The units are `d` (days),
/// `h`, `m` (minutes), `s` and `ms`.
///
/// # Errors
///
/// Text of any other form, and a period longer than [`MAX`].
///
/// ```
/// use jobq::period;
/// use std::time::Duration;
///
/// assert_eq!(period::parse("1h 30m")?, Duration::from_secs(5_400));
/// assert_eq!(period::parse("250ms")?, Duration::from_millis(250));
/// assert_eq!(
///     period::parse("30").unwrap_err().to_string(),
///     "`30` is not a valid duration: `30` has no unit; for seconds, write \"30s\" (units: d, h, m, s, ms)",
/// );
/// # Ok::<(), jobq::period::PeriodError>(())
/// ```
pub fn parse(text: &str) -> Result<Duration, PeriodError> {
    let fail = |problem: Problem| PeriodError { text: text.to_owned(), problem };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(fail(Problem::Empty));
    }
    let mut total: u64 = 0;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let fraction = tail.strip_prefix('.').unwrap_or_default();
        if fraction.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(fail(Problem::Fraction));
        }
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if number.is_empty() {
            return Err(fail(Problem::NoNumber(rest.to_owned())));
        }
        if unit.is_empty() {
            return Err(fail(Problem::NoUnit(number.to_owned())));
        }
        if !UNITS.iter().any(|(known, _)| *known == unit) {
            let (number, unit) = (number.to_owned(), unit.to_owned());
            return Err(fail(Problem::UnknownUnit { number, unit }));
        }
        // The iterator only moves on, so a unit that comes again or too late is not found.
        let Some((_, length)) = units.find(|(known, _)| *known == unit) else {
            return Err(fail(Problem::Order(unit.to_owned())));
        };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*length))
            .and_then(|part| total.checked_add(part))
            .filter(|total| Duration::from_millis(*total) <= MAX)
            .ok_or_else(|| fail(Problem::TooLong))?;
        rest = tail.trim_start();
    }
    Ok(Duration::from_millis(total))
}

/// Writes a period in the shortest form that [`parse`] reads back, without
/// spaces. Fractions of a millisecond are rounded up.
///
/// ```
/// use jobq::period;
/// use std::time::Duration;
///
/// assert_eq!(period::format(Duration::from_secs(90)), "1m30s");
/// assert_eq!(period::format(Duration::ZERO), "0s");
/// ```
#[must_use]
pub fn format(period: Duration) -> String {
    let mut left = millis(period);
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in UNITS {
        if left >= length {
            text.push_str(&(left / length).to_string());
            text.push_str(unit);
            left %= length;
        }
    }
    text
}

/// A period in whole milliseconds, rounded up, so that a wait never ends early.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(jobq_names::period::millis(Duration::from_micros(1_500)), 2);
/// ```
#[must_use]
pub fn millis(period: Duration) -> u64 {
    let part = period.subsec_nanos().div_ceil(1_000_000);
    period.as_secs().saturating_mul(1_000).saturating_add(part.into())
}

/// The unit that is meant by another usual word for it.
fn meant(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "d" | "day" | "days" => "d",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
        _ => return None,
    })
}

/// Why a text is no period. Its message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodError {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Empty,
    NoNumber(String),
    NoUnit(String),
    Fraction,
    UnknownUnit { number: String, unit: String },
    Order(String),
    TooLong,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a valid duration: ", self.text)?;
        match &self.problem {
            Problem::Empty => f.write_str("it is empty; write a duration such as \"30s\""),
            Problem::NoNumber(rest) => {
                write!(f, "expected a whole number before `{rest}`, as in \"1h 30m\"")
            }
            Problem::NoUnit(number) => {
                write!(f, "`{number}` has no unit; for seconds, write \"{number}s\"")
            }
            Problem::Fraction => f.write_str(
                "numbers must be whole; write, for example, \"1s 500ms\" instead of \"1.5s\"",
            ),
            Problem::UnknownUnit { number, unit } => {
                write!(f, "`{unit}` is not a unit")?;
                match meant(unit) {
                    Some(known) => write!(f, "; write \"{number}{known}\""),
                    None => Ok(()),
                }
            }
            Problem::Order(unit) => {
                write!(f, "`{unit}` is repeated or out of order; write longer units first")
            }
            Problem::TooLong => write!(f, "it exceeds the maximum of {}", format(MAX)),
        }?;
        f.write_str(" (units: d, h, m, s, ms)")
    }
}

impl std::error::Error for PeriodError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit_and_their_sums() {
        let table = [
            ("250ms", 250),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            (" 1d  1ms ", 86_400_001),
            ("0s", 0),
            ("90m", 5_400_000),
            ("3650d", 315_360_000_000),
        ];
        for (text, millis) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong_and_what_to_write() {
        let table = [
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("30", "`30` has no unit; for seconds, write \"30s\""),
            ("soon", "expected a whole number before `soon`"),
            ("-5s", "expected a whole number before `-5s`"),
            ("1.5s", "numbers must be whole; write, for example, \"1s 500ms\""),
            ("1h 0.5m", "numbers must be whole"),
            ("1.s", "`1` has no unit"),
            ("10 m", "`10` has no unit"),
            ("5min", "`min` is not a unit; write \"5m\" (units"),
            ("1h 5Minutes", "`Minutes` is not a unit; write \"5m\" (units"),
            ("5M", "`M` is not a unit; write \"5m\" (units"),
            ("20millis", "`millis` is not a unit; write \"20ms\" (units"),
            ("3w", "`w` is not a unit (units"),
            ("5µs", "`5` has no unit"),
            ("1m 1h", "`h` is repeated or out of order"),
            ("1s 1s", "`s` is repeated or out of order"),
            ("3651d", "it exceeds the maximum of 3650d"),
            ("99999999999999999999s", "it exceeds the maximum of 3650d"),
        ];
        for (text, expected) in table {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.starts_with(&format!("`{text}` is not a valid duration")), "{error}");
        }
    }

    #[test]
    fn part_of_a_millisecond_is_a_whole_one() {
        let table = [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Duration::from_nanos(1_999_999_999), 2_000),
            (Duration::from_millis(u64::MAX), u64::MAX),
            (Duration::MAX, u64::MAX),
        ];
        for (period, expected) in table {
            assert_eq!(millis(period), expected, "{period:?}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["250ms", "30s", "10m", "1h30m", "2d", "1d1h1m1s1ms", "0s"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
        assert_eq!(format(Duration::from_micros(1)), "1ms", "rounded up");
    }
}
