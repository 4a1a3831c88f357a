use std::time::{Duration, SystemTime};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A time in UTC, as RFC 3339 writes it.
fn utc(text: &str) -> SystemTime {
    SystemTime::try_from(text.parse::<Timestamp>().unwrap()).unwrap()
}

/// The times of a cron expression in a zone after one and before another, as its clocks show them.
fn between(text: &str, zone: &str, after: &str, before: &str) -> Vec<String> {
    let times = Schedule::cron(text).unwrap().zone(zone).unwrap();
    let until = utc(before);
    let times_before = times.after(utc(after)).take_while(|due| *due < until);
    times_before.map(|due| times.local(due)).collect()
}

/// An expression, its zone, a time and a later one, and the local times in between.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

/// Days with a clock change.
const CLOCK_CHANGES: &[Row] = &[
    // Spring: 02:00 becomes 03:00 at 01:00 UTC.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        "2026-03-30T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    ),
    (
        "0 2,14 * * *",
        "Europe/Berlin",
        "2026-03-28T20:00:00Z",
        "2026-03-29T20:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T14:00:00+02:00"],
    ),
    // Three times in the gap and one at its end become one.
    (
        "0,20,40 2,3 * * *",
        "Europe/Berlin",
        "2026-03-28T20:00:00Z",
        "2026-03-29T20:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T03:20:00+02:00", "2026-03-29T03:40:00+02:00"],
    ),
    (
        "*/30 1-3 * * *",
        "Europe/Berlin",
        "2026-03-28T20:00:00Z",
        "2026-03-29T20:00:00Z",
        &[
            "2026-03-29T01:00:00+01:00",
            "2026-03-29T01:30:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:30:00+02:00",
        ],
    ),
    // The whole interval is in the gap.
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T20:00:00Z", "2026-03-29T20:00:00Z", &[]),
    // Autumn: 03:00 becomes 02:00 at 01:00 UTC.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        "2026-10-26T12:00:00Z",
        &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    ),
    (
        "15,45 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &["2026-10-25T02:15:00+02:00", "2026-10-25T02:45:00+02:00"],
    ),
    (
        "*/30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &[
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
        ],
    ),
    (
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T00:00:00Z",
        "2026-11-02T00:00:00Z",
        &["2026-11-01T01:30:00-04:00"],
    ),
    (
        "30 2 * * *",
        "America/New_York",
        "2026-03-08T00:00:00Z",
        "2026-03-09T00:00:00Z",
        &["2026-03-08T03:00:00-04:00"],
    ),
    // Half an hour: 02:00 becomes 02:30 in October, and 01:30 in April.
    (
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        "2026-10-04T12:00:00Z",
        &["2026-10-04T02:30:00+11:00"],
    ),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T00:00:00Z",
        "2026-04-05T12:00:00Z",
        &["2026-04-05T01:45:00+11:00"],
    ),
    (
        "*/15 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T00:00:00Z",
        "2026-04-05T12:00:00Z",
        &[
            "2026-04-05T01:00:00+11:00",
            "2026-04-05T01:15:00+11:00",
            "2026-04-05T01:30:00+11:00",
            "2026-04-05T01:45:00+11:00",
            "2026-04-05T01:30:00+10:30",
            "2026-04-05T01:45:00+10:30",
        ],
    ),
    // Midnight becomes 01:00: the day begins there.
    (
        "0 0 * * *",
        "America/Santiago",
        "2026-09-05T12:00:00Z",
        "2026-09-07T12:00:00Z",
        &["2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"],
    ),
    (
        "0 0 * * *",
        "Africa/Cairo",
        "2026-04-23T12:00:00Z",
        "2026-04-25T12:00:00Z",
        &["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"],
    ),
    (
        "0 0 * * *",
        "Asia/Beirut",
        "2026-03-28T12:00:00Z",
        "2026-03-30T12:00:00Z",
        &["2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"],
    ),
    // Midnight becomes 23:00, so the last hour of the day comes twice.
    (
        "30 23 * * *",
        "Asia/Beirut",
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &["2026-10-24T23:30:00+03:00"],
    ),
    (
        "0 0 * * *",
        "Asia/Beirut",
        "2026-10-24T12:00:00Z",
        "2026-10-25T23:00:00Z",
        &["2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+02:00"],
    ),
    // Europe changes at 01:00 UTC, which is midnight in the Azores.
    (
        "30 0 * * *",
        "Atlantic/Azores",
        "2026-03-28T12:00:00Z",
        "2026-03-29T12:00:00Z",
        &["2026-03-29T01:00:00+00:00"],
    ),
    // Irish standard time is summer time; winter has a negative offset.
    (
        "30 1 * * *",
        "Europe/Dublin",
        "2026-03-28T12:00:00Z",
        "2026-03-30T12:00:00Z",
        &["2026-03-29T02:00:00+01:00", "2026-03-30T01:30:00+01:00"],
    ),
    // A year beyond those that the database lists.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2051-03-25T12:00:00Z",
        "2051-03-26T12:00:00Z",
        &["2051-03-26T03:00:00+02:00"],
    ),
    // No changes, and an offset of 45 minutes.
    (
        "30 2 * * *",
        "Asia/Kathmandu",
        "2026-03-28T12:00:00Z",
        "2026-03-29T12:00:00Z",
        &["2026-03-29T02:30:00+05:45"],
    ),
    // A skipped day: its fixed time is due when the day would have begun.
    (
        "0 9 * * *",
        "Pacific/Apia",
        "2011-12-28T20:00:00Z",
        "2011-12-31T20:00:00Z",
        &[
            "2011-12-29T09:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T09:00:00+14:00",
            "2012-01-01T09:00:00+14:00",
        ],
    ),
];

/// Fixed times and intervals on days with a clock change, in ten zones.
#[test]
fn clocks_that_are_changed() {
    for (text, zone, after, before, expected) in CLOCK_CHANGES {
        assert_eq!(between(text, zone, after, before), *expected, "{text} {zone} {after}");
    }
    let zones: std::collections::BTreeSet<_> = CLOCK_CHANGES.iter().map(|row| row.1).collect();
    assert!(zones.len() >= 10, "{zones:?}");
}

/// The next time is the same from everywhere: from every ten seconds of two days with a clock change,
/// half a second later.
#[test]
fn the_next_time_is_the_same_from_everywhere() {
    let texts = ["30 2 * * *", "0,20,40 1,2,3 * * *", "*/20 1-3 * * *", "10 30 2 * * *"];
    for day in ["2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"] {
        let from = utc(day);
        for text in texts {
            let times = Schedule::cron(text).unwrap().zone("Europe/Berlin").unwrap();
            let all: Vec<_> = times.after(from).take(40).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "{text}");
            for seconds in (0..24 * 360).map(|tens| tens * 10) {
                let asked = from + Duration::from_millis(seconds * 1_000 + 500);
                let expected = all.iter().find(|due| **due > asked);
                assert_eq!(times.after(asked).next().as_ref(), expected, "{text} {seconds}");
            }
            for due in all {
                assert_eq!(times.after(due - Duration::from_nanos(1)).next(), Some(due), "{text}");
                assert_ne!(times.after(due).next(), Some(due), "{text}");
            }
        }
    }
}

#[test]
fn days_that_few_years_have() {
    let table = [
        ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00+00:00"),
        ("0 0 * 2 FRI#5", "2026-11-29T00:00:00Z", "2036-02-29T00:00:00+00:00"),
        ("0 0 31 DEC *", "2026-12-31T00:00:00Z", "2027-12-31T00:00:00+00:00"),
    ];
    for (text, after, expected) in table {
        let times = Schedule::cron(text).unwrap();
        let next = times.after(utc(after)).next().map(|due| times.local(due));
        assert_eq!(next.as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn times_end_with_the_calendar() {
    let last = utc("9999-12-30T00:00:00Z");
    assert!(Schedule::cron("0 0 1 1 *").unwrap().after(last).next().is_none());
    assert!(Schedule::every("3650d").unwrap().after(last).next().is_none());
    let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(400_000_000_000);
    assert!(Schedule::every("1s").unwrap().after(beyond).next().is_none());
    assert_eq!(Schedule::every("1s").unwrap().local(beyond), "9999-12-30T22:00:00+00:00");
}

#[test]
fn periods_are_multiples_since_the_epoch() {
    let after = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    let table = [
        ("10m", 0, 600_000),
        ("10m", 599_999, 600_000),
        ("10m", 600_000, 1_200_000),
        ("1m 30s", 89_999, 90_000),
    ];
    for (period, asked, expected) in table {
        let times = Schedule::every(period).unwrap();
        assert_eq!(times.after(after(asked)).next(), Some(after(expected)), "{period} {asked}");
    }
    let before = SystemTime::UNIX_EPOCH - Duration::from_millis(4_500);
    assert_eq!(
        Schedule::cron("* * * * * *").unwrap().after(before).next(),
        Some(before + SECOND / 2)
    );
    assert_eq!(Schedule::every("1m").unwrap().after(before).next(), Some(after(0)));
}

#[test]
fn errors_say_what_to_write() {
    let of = |result: Result<Schedule>| result.unwrap_err().to_string();
    let zone = |name: &str| of(Schedule::cron("@daily").unwrap().zone(name));
    let periods =
        [Duration::ZERO, Duration::from_millis(1_500), period::MAX + SECOND, Duration::MAX];
    for period in periods {
        let text = of(Schedule::every(period));
        assert!(text.ends_with("; use whole seconds, from 1s to 3650d"), "{text}");
    }
    assert!(of(Schedule::every("often")).contains("`often` is not a valid duration"));
    for name in [
        "Berlin",
        "",
        "localtime",
        "Factory",
        "posixrules",
        "right/Europe/Berlin",
        "Etc/Unknown",
        "../UTC",
    ] {
        let expected = format!("`{name}` is not a time zone; use a name of the IANA database");
        assert!(zone(name).contains(&expected), "{}", zone(name));
    }
}

/// Old names, which Debian has in a package of its own.
#[test]
fn zones_have_their_old_names() {
    for name in ["UTC", "Etc/UTC", "Europe/Kiev", "Asia/Calcutta", "US/Eastern", "EST", "GMT"] {
        assert!(Schedule::cron("@daily").unwrap().zone(name).is_ok(), "{name}");
    }
}
