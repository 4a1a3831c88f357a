//! The search for the next time.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use jobq_names::cron::{Cron, Day};

/// The first multiple of a period since the epoch that is after a time.
pub(super) fn of_period(period: Duration, after: Timestamp) -> Option<Timestamp> {
    let period = i128::try_from(period.as_nanos()).ok()?;
    let multiple = after.as_nanosecond().div_euclid(period) + 1;
    Timestamp::from_nanosecond(multiple.checked_mul(period)?).ok()
}

/// The first time of a cron expression that is after a time.
pub(super) fn of_cron(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    if cron.has_fixed_times() { fixed(cron, zone, after) } else { interval(cron, zone, after) }
}

/// The first fixed time after an instant. The instants of fixed times have the order of their local
/// times, so the search begins at the local time of `after`.
fn fixed(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut from = zone.to_datetime(after);
    loop {
        let shown = next_shown(cron, from)?;
        let due = instant(zone, shown)?;
        if due > after {
            return Some(due);
        }
        from = shown.checked_add(1.second()).ok()?;
    }
}

/// The instant at which the clocks first show a time, or the end of the gap around it.
fn instant(zone: &TimeZone, shown: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(shown);
    let earlier = ambiguous.earlier().ok()?;
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => Some(zone.following(earlier).next()?.timestamp()),
        _ => Some(earlier),
    }
}

/// The first matching instant of an interval. Between two changes, the clocks show each time at most
/// once.
fn interval(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut from = of_period(Duration::from_secs(1), after)?;
    loop {
        let offset = zone.to_offset(from);
        let due = offset.to_timestamp(next_shown(cron, offset.to_datetime(from))?).ok()?;
        match zone.following(from).next() {
            Some(change) if change.timestamp() <= due => from = change.timestamp(),
            _ => return Some(due),
        }
    }
}

/// The first local time that matches, from this one on.
fn next_shown(cron: &Cron, mut from: DateTime) -> Option<DateTime> {
    if from.subsec_nanosecond() > 0 {
        from = from.with().subsec_nanosecond(0).build().ok()?.checked_add(1.second()).ok()?;
    }
    let (mut date, mut time) = (from.date(), from.time());
    loop {
        if cron.has_day(day_of(date))
            && let Some(time) = next_time(cron, time)
        {
            return Some(date.to_datetime(time));
        }
        let has_month = cron.has_month(number(date.month()));
        date = if has_month { date } else { date.last_of_month() }.tomorrow().ok()?;
        time = Time::midnight();
    }
}

/// The first time of day that matches, from this one on.
fn next_time(cron: &Cron, from: Time) -> Option<Time> {
    let from = [from.hour(), from.minute(), from.second()].map(number);
    cron.hours().filter(|hour| *hour >= from[0]).find_map(|hour| {
        cron.minutes().filter(|minute| [hour, *minute] >= [from[0], from[1]]).find_map(|minute| {
            let second = cron.seconds().find(|second| [hour, minute, *second] >= from)?;
            let [hour, minute, second] = [hour, minute, second].map(|part| i8::try_from(part).ok());
            Time::new(hour?, minute?, second?, 0).ok()
        })
    })
}

fn day_of(date: Date) -> Day {
    Day {
        month: number(date.month()),
        day: number(date.day()),
        weekday: number(date.weekday().to_sunday_zero_offset()),
        days_in_month: number(date.days_in_month()),
    }
}

/// Converts a component of a date or time, which is never negative.
fn number(part: i8) -> u32 {
    part.unsigned_abs().into()
}
