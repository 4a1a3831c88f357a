//! The times at which a periodic job is due.
//!
//! A [`Schedule`] is a cron expression in a time zone, or a period. `jobq schedules next
//! "30 2 * * MON-FRI" --zone Europe/Berlin` prints the times of an expression. A test checks them:
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! use jobq::schedule::Schedule;
//!
//! let schedule = Schedule::cron("0 9 * * MON-FRI")?.zone("America/New_York")?;
//!
//! // Friday, 27 November 2026, noon in UTC.
//! let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_780_800);
//! let next: Vec<_> = schedule.after(noon).take(2).map(|due| schedule.local(due)).collect();
//! assert_eq!(next, ["2026-11-27T09:00:00-05:00", "2026-11-30T09:00:00-05:00"]);
//! # Ok::<(), jobq::Error>(())
//! ```
//!
//! # Clock changes
//!
//! Many zones move their clocks forward and back once a year. The times of a cron expression are
//! fixed times or intervals:
//!
//! * **Fixed times**: second, minute and hour are values or lists of values, as in `30 2 * * *`.
//!   Each is due once for every day that matches. A time that the clocks skip is due at the end of
//!   the gap. A time that occurs twice is due the first time. Several times that fall on one instant
//!   are due once.
//! * **Intervals**: second, minute or hour has a `*`, a range or a step, as in `*/10 * * * *`. An
//!   interval is due whenever the clocks show a matching time: in both passes of a repeated hour,
//!   and never in a gap. Vixie's cron treats a range as fixed times.
//!
//! A period is due at each of its multiples since 1970-01-01 00:00:00 UTC, whatever the clocks
//! show.

pub(crate) mod book;
pub(crate) mod change;
pub(crate) mod deadlines;
mod entry;
mod next;
mod report;
pub(crate) mod spec;
mod zone;

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobq_names::cron::{self, Cron};

pub use self::report::ScheduleReport;
pub(crate) use self::report::SeatReport;
use crate::error::{Error, Result};
use crate::period::{self, IntoPeriod};

/// The times at which a periodic job is due.
///
/// ```
/// use jobq::schedule::Schedule;
///
/// let nightly = Schedule::cron("30 2 * * *")?.zone("Europe/Berlin")?;
/// let often = Schedule::every("10m")?;
/// assert_eq!(nightly.to_string(), "30 2 * * * (Europe/Berlin)");
/// assert_eq!(often.to_string(), "every 10m");
/// # Ok::<(), jobq::Error>(())
/// ```
#[derive(Clone)]
pub struct Schedule {
    rule: Rule,
    zone: TimeZone,
}

/// The text before a period.
const EVERY: &str = "every ";

#[derive(Clone)]
enum Rule {
    Cron { text: String, cron: Cron },
    Every(Duration),
}

impl Schedule {
    /// Parses a cron expression, such as `"30 2 * * MON-FRI"`. The zone is UTC.
    ///
    /// It has five fields: minute, hour, day of month, month and day of week. An expression of six
    /// fields begins with the second.
    ///
    /// | field | values | also |
    /// |---|---|---|
    /// | second | 0-59; 0 if it is left out | |
    /// | minute | 0-59 | |
    /// | hour | 0-23 | |
    /// | day of month | 1-31 | `L` (the last day), `LW` (the last day from Monday to Friday), `15W` (the day from Monday to Friday that is nearest to the 15th, within its month) |
    /// | month | 1-12, `JAN`-`DEC` | |
    /// | day of week | 0-7, `SUN`-`SAT`; 0 and 7 are Sunday | `FRIL` (the last Friday of the month), `FRI#2` (the second one) |
    ///
    /// A field is a list (`1,15`) of values, ranges (`9-17`), steps (`*/10`, `9-17/2`) or `*`.
    /// Case does not matter. `?` means `*` in the fields of days. `@hourly`, `@daily`,
    /// `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually` stand for whole expressions.
    ///
    /// Differences between implementations:
    ///
    /// * If neither day of month nor day of week begins with `*` or `?`, a day has to match only one
    ///   of them, as in Vixie's cron: `0 0 13 * FRI` is each 13th and each Friday. Quartz has no such
    ///   expressions.
    /// * Steps count from the first value of the range. `*/7` of the minute is 0, 7, …, 56, then 0 of
    ///   the next hour. For every seven minutes, use [`every`](Self::every).
    /// * Quartz numbers the days of the week from 1 (Sunday) to 7. Names mean the same everywhere.
    ///
    /// # Errors
    ///
    /// Any other text, and an expression that no day matches, are
    /// [invalid](crate::ErrorKind::Invalid) arguments.
    ///
    /// ```
    /// use jobq::schedule::Schedule;
    ///
    /// assert!(Schedule::cron("*/10 9-17 * * MON-FRI").is_ok());
    /// assert_eq!(
    ///     Schedule::cron("0 25 * * *").unwrap_err().to_string(),
    ///     "`0 25 * * *` is not a valid cron expression: `25` is not a valid hour (0-23)",
    /// );
    /// ```
    pub fn cron(text: &str) -> Result<Self> {
        let cron = cron::parse(text).map_err(|problem| Error::invalid(problem.to_string()))?;
        let rule = Rule::Cron { text: text.trim().to_owned(), cron };
        Ok(Self { rule, zone: TimeZone::UTC })
    }

    /// Creates the schedule of a period: a `Duration`, or its text, such as `"10m"`. It is due at the
    /// multiples of the period since 1970-01-01 00:00:00 UTC, so all processes agree on them: `"1d"`
    /// is midnight UTC, `"7d"` is Thursday at midnight UTC.
    ///
    /// # Errors
    ///
    /// A text that is not a duration, and a period that is zero, longer than 3,650 days or not a whole
    /// number of seconds, are [invalid](crate::ErrorKind::Invalid) arguments.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use jobq::schedule::Schedule;
    ///
    /// let epoch = SystemTime::UNIX_EPOCH;
    /// let next = Schedule::every("10m")?.after(epoch + Duration::from_secs(7)).next();
    /// assert_eq!(next, Some(epoch + Duration::from_secs(600)));
    /// # Ok::<(), jobq::Error>(())
    /// ```
    pub fn every(period: impl IntoPeriod) -> Result<Self> {
        let period = period.into_period().map_err(|problem| Error::invalid(problem.to_string()))?;
        if period.is_zero() || period.subsec_nanos() > 0 || period > period::MAX {
            let (period, longest) = (period::format(period), period::format(period::MAX));
            let text = format!(
                "a job cannot be due every {period}; use whole seconds, from 1s to {longest}"
            );
            return Err(Error::invalid(text));
        }
        Ok(Self { rule: Rule::Every(period), zone: TimeZone::UTC })
    }

    /// Sets the time zone, by its name in the IANA database, such as `"Europe/Berlin"`. Defaults to
    /// UTC. For a period, the zone changes only the output of [`local`](Self::local).
    ///
    /// Looks the name up in the system's database, then in the copy that is compiled into the
    /// program, so containers need no tzdata. Case does not matter. The rules are read once: an
    /// update of the database applies to new schedules.
    ///
    /// # Errors
    ///
    /// A name that neither has is an [invalid](crate::ErrorKind::Invalid) argument.
    ///
    /// ```
    /// use jobq::schedule::Schedule;
    ///
    /// assert!(Schedule::cron("30 2 * * *")?.zone("Europe/Berlin").is_ok());
    /// assert!(Schedule::cron("30 2 * * *")?.zone("Berlin").is_err());
    /// # Ok::<(), jobq::Error>(())
    /// ```
    pub fn zone(mut self, name: &str) -> Result<Self> {
        self.zone = zone::find(name)?;
        Ok(self)
    }

    /// The text of the times without their zone, which [`of_text`](Self::of_text) reads.
    pub(crate) fn text(&self) -> String {
        match &self.rule {
            Rule::Cron { text, .. } => text.clone(),
            Rule::Every(period) => format!("{EVERY}{}", period::format(*period)),
        }
    }

    pub(crate) fn of_text(text: &str) -> Result<Self> {
        text.strip_prefix(EVERY).map_or_else(|| Self::cron(text), Self::every)
    }

    /// Returns the times after `time`, in order, up to the year 9999.
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use jobq::schedule::Schedule;
    ///
    /// let now = SystemTime::now();
    /// assert!(Schedule::cron("@daily")?.after(now).take(10).is_sorted_by(|a, b| a < b));
    /// # Ok::<(), jobq::Error>(())
    /// ```
    pub fn after(&self, time: SystemTime) -> impl Iterator<Item = SystemTime> + use<> {
        let schedule = self.clone();
        let first = Timestamp::try_from(time).ok().and_then(|time| schedule.next(time));
        std::iter::successors(first, move |time| schedule.next(*time))
            .map_while(|time| SystemTime::try_from(time).ok())
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Cron { cron, .. } => next::of_cron(cron, &self.zone, after),
            Rule::Every(period) => next::of_period(*period, after),
        }
    }

    /// Writes a time as RFC 3339 text to the second, as the clocks of the zone show it:
    /// `"2026-11-30T02:30:00+01:00"`. A time that RFC 3339 cannot express is
    /// written as the nearest that it can.
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use jobq::schedule::Schedule;
    ///
    /// let schedule = Schedule::cron("@daily")?.zone("Asia/Tokyo")?;
    /// assert_eq!(schedule.local(SystemTime::UNIX_EPOCH), "1970-01-01T09:00:00+09:00");
    /// # Ok::<(), jobq::Error>(())
    /// ```
    #[must_use]
    pub fn local(&self, time: SystemTime) -> String {
        self.format(time, "%Y-%m-%dT%H:%M:%S%:z")
    }

    pub(crate) fn words(&self, time: SystemTime) -> String {
        self.format(time, "%A, %-d %B %Y, %H:%M:%S (%:z)")
    }

    fn format(&self, time: SystemTime, format: &str) -> String {
        let nearest = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
        let time = Timestamp::try_from(time).unwrap_or(nearest);
        time.to_zoned_datetime(self.zone.clone()).strftime(format).to_string()
    }

    /// The name of the time zone.
    ///
    /// ```
    /// use jobq::schedule::Schedule;
    ///
    /// assert_eq!(Schedule::every("1h")?.zone_name(), "UTC");
    /// # Ok::<(), jobq::Error>(())
    /// ```
    #[must_use]
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }
}

/// A [`Schedule`], or the text of a [cron expression](Schedule::cron) in UTC.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a schedule",
    label = "expected a `Schedule`, or a cron expression such as `\"0 6 * * *\"`",
    note = "`Schedule::every(\"10m\")?` is the schedule of a period"
)]
pub trait IntoSchedule {
    /// The schedule.
    ///
    /// # Errors
    ///
    /// A text that is not a cron expression.
    fn into_schedule(self) -> Result<Schedule>;
}

impl IntoSchedule for Schedule {
    fn into_schedule(self) -> Result<Schedule> {
        Ok(self)
    }
}

impl IntoSchedule for &str {
    fn into_schedule(self) -> Result<Schedule> {
        Schedule::cron(self)
    }
}

impl IntoSchedule for String {
    fn into_schedule(self) -> Result<Schedule> {
        Schedule::cron(&self)
    }
}

impl IntoSchedule for &String {
    fn into_schedule(self) -> Result<Schedule> {
        Schedule::cron(self)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Cron { text, .. } => write!(f, "{text} ({})", self.zone_name()),
            Rule::Every(_) => f.write_str(&self.text()),
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}

#[cfg(test)]
mod tests;
