use super::*;

/// The days of a month that begins on this weekday, on which a job is due.
fn days(text: &str, month: u32, first_weekday: u32, days_in_month: u32) -> Vec<u32> {
    let cron = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let day = |day| Day { month, day, weekday: (first_weekday + day - 1) % 7, days_in_month };
    (1..=days_in_month).filter(|number| cron.has_day(day(*number))).collect()
}

#[test]
fn values_ranges_steps_and_lists() {
    let minutes: [(&str, &[u32]); 7] = [
        ("7", &[7]),
        ("0,30", &[0, 30]),
        ("58-59", &[58, 59]),
        ("*/20", &[0, 20, 40]),
        ("*/59", &[0, 59]),
        ("10-30/10", &[10, 20, 30]),
        ("5-5,50-59/9,7", &[5, 7, 50, 59]),
    ];
    for (field, expected) in minutes {
        let cron = parse(&format!("{field} * * * *")).unwrap();
        assert_eq!(cron.minutes().collect::<Vec<_>>(), expected, "{field}");
        assert_eq!(cron.seconds().collect::<Vec<_>>(), [0], "{field}");
        assert_eq!(cron.hours().count(), 24, "{field}");
        let cron = parse(&format!("{field} 0 12 * * *")).unwrap();
        assert_eq!(cron.seconds().collect::<Vec<_>>(), expected, "{field}");
        assert_eq!(cron.hours().collect::<Vec<_>>(), [12], "{field}");
    }
}

#[test]
fn days_of_month_and_week() {
    /// The month, the weekday of its first day, and its length.
    type Month = (u32, u32, u32);
    const NOVEMBER_2026: Month = (11, 0, 30);
    const AUGUST_2026: Month = (8, 6, 31);
    const FEBRUARY_2026: Month = (2, 0, 28);
    let table: [(&str, Month, &[u32]); 31] = [
        ("13 * *", NOVEMBER_2026, &[13]),
        ("*/10 * *", NOVEMBER_2026, &[1, 11, 21]),
        ("L * *", FEBRUARY_2026, &[28]),
        ("31 * *", NOVEMBER_2026, &[]),
        ("L,1 * *", NOVEMBER_2026, &[1, 30]),
        ("LW * *", NOVEMBER_2026, &[30]),
        ("LW * *", FEBRUARY_2026, &[27]),
        ("lw * *", (5, 5, 31), &[29]),
        // A Sunday, and a Saturday that is the first.
        ("15W * *", NOVEMBER_2026, &[16]),
        ("14W * *", NOVEMBER_2026, &[13]),
        ("1W * *", NOVEMBER_2026, &[2]),
        ("1W * *", AUGUST_2026, &[3]),
        ("28W * *", FEBRUARY_2026, &[27]),
        ("31W * *", (5, 5, 31), &[29]),
        ("31W * *", NOVEMBER_2026, &[]),
        ("* * MON", NOVEMBER_2026, &[2, 9, 16, 23, 30]),
        ("* * 0", NOVEMBER_2026, &[1, 8, 15, 22, 29]),
        ("? * 7", NOVEMBER_2026, &[1, 8, 15, 22, 29]),
        ("* * Fri-Sun", NOVEMBER_2026, &[1, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28, 29]),
        ("* * SUN-MON", AUGUST_2026, &[2, 3, 9, 10, 16, 17, 23, 24, 30, 31]),
        ("* * FRI#2,SUN#5", NOVEMBER_2026, &[13, 29]),
        ("* * MONL", NOVEMBER_2026, &[30]),
        ("* * 7L", NOVEMBER_2026, &[29]),
        ("* * 7#1", NOVEMBER_2026, &[1]),
        // Both: either.
        ("13 * FRI", NOVEMBER_2026, &[6, 13, 20, 27]),
        ("12 * FRI#1", NOVEMBER_2026, &[6, 12]),
        // A field that begins with `*` is not one of two.
        ("*/2 * MON", NOVEMBER_2026, &[9, 23]),
        ("1-7 * */5", NOVEMBER_2026, &[1, 6]),
        ("12 NOV-DEC ?", NOVEMBER_2026, &[12]),
        ("12 JAN,oct *", NOVEMBER_2026, &[]),
        ("*,5 * MON#1", NOVEMBER_2026, &[2]),
    ];
    for (fields, (month, first, length), expected) in table {
        assert_eq!(days(&format!("0 0 {fields}"), month, first, length), expected, "{fields}");
    }
}

#[test]
fn nicknames_and_spaces() {
    for (name, fields) in NICKNAMES {
        assert_eq!(parse(name), parse(fields), "{name}");
    }
    assert_eq!(parse(" @Daily "), parse("0\t0  *\n* *"));
}

#[test]
fn fixed_times_are_values() {
    for fixed in ["0 2 * * *", "0 2,14 * * *", "15,45 1 */2 * MON-FRI", "5 0 0 * * *"] {
        assert!(parse(fixed).unwrap().has_fixed_times(), "{fixed}");
    }
    for interval in ["* 2 * * *", "0 */2 * * *", "0 9-17 * * *", "0 0,2-3 * * *", "* 0 2 * * *"] {
        assert!(!parse(interval).unwrap().has_fixed_times(), "{interval}");
    }
}

#[test]
fn errors_name_the_part_and_say_what_to_write() {
    let table = [
        ("", "it is empty; write minute, hour"),
        ("5", "it has 1 field; expected 5"),
        ("* * * *", "it has 4 fields; expected 5 (minute, hour, day of month, month, day of week)"),
        (
            "0 0 0 1 1 * 2027",
            "it has 7 fields; expected 5 (minute, hour, day of month, month, day of week), or 6 with the second first; a year cannot be given",
        ),
        ("@reboot", "`@reboot` is unknown; expected one of @yearly, @annually,"),
        ("@every 5m", "`@every 5m` is a period; give it as `every`, without the `@`"),
        ("60 * * * *", "`60` is not a valid minute (0-59)"),
        ("0 24 * * *", "`24` is not a valid hour (0-23)"),
        ("0 0 0 * *", "`0` is not a valid day of month (1-31, L, LW, or a day and W)"),
        ("0 0 1 13 *", "`13` is not a valid month (1-12 or JAN-DEC)"),
        (
            "0 0 * * 8",
            "`8` is not a valid day of week (0-7, SUN-SAT, a day and L, or a day and #1 to #5)",
        ),
        ("0 0 * * FRY", "`FRY` is not a valid day of week"),
        ("61 0 0 * * *", "`61` is not a valid second (0-59)"),
        ("0 L * * *", "`L` is not a valid hour"),
        ("? * * * *", "`?` is not a valid minute"),
        ("H * * * *", "`H` is not a valid minute"),
        ("+5 * * * *", "`+5` is not a valid minute"),
        ("-5 * * * *", "`-5` lacks a value of the minute (0-59)"),
        ("1,,2 * * * *", "`1,,2` lacks a value of the minute"),
        ("99999999999 * * * *", "`99999999999` is not a valid minute"),
        ("1-2-3 * * * *", "`2-3` is not a valid minute"),
        ("*/0 * * * *", "`*/0` has an invalid step; a step of the minute is from 1 to 59"),
        ("*/60 * * * *", "`*/60` has an invalid step; a step of the minute is from 1 to 59"),
        ("0 */24 * * *", "`*/24` has an invalid step; a step of the hour is from 1 to 23"),
        ("*/ * * * *", "`*/` has an invalid step"),
        ("5/15 * * * *", "`5/15` has a step without a range; write `5-59/15`"),
        ("0 0 * * MON/2", "`MON/2` has a step without a range; write `MON-6/2`"),
        ("0 22-2 * * *", "the range of `22-2` runs backwards; write `22-23,0-2`"),
        ("0 0 * NOV-FEB *", "the range of `NOV-FEB` runs backwards; write `11-12,1-2`"),
        ("0 0 * * SAT-MON", "the range of `SAT-MON` runs backwards; write `6,0-1`"),
        ("0 22-2/2 * * *", "write `22-23/2,0-2/2`"),
        ("0 21-3/2 * * *", "write `21-23/2,1-3/2`"),
        ("0 23-1/5 * * *", "the range of `23-1/5` runs backwards; write `23`"),
        ("0 0 15W-20 * *", "`15W` is not a valid day of month"),
        ("CRON_TZ=Asia/Tokyo 0 2 * * *", "is not a part of it; give the time zone as `zone`"),
        ("0 0 30 2 */2", "none of its months has such a day"),
        ("0 0 L-3 * *", "`L-3` is not supported"),
        ("0 0 * * L", "for the last Friday of a month write `FRIL`, for each Saturday `SAT`"),
        ("0 0 * * FRI#6", "`FRI#6` is not valid; a day is followed by `#1` to `#5`"),
        ("0 0 * * FRI#L", "`FRI#L` is not valid"),
        ("0 0 32W * *", "`32` is not a valid day of month"),
        ("0 0 30 2 *", "none of its months has such a day"),
        ("0 0 31 4,6,9,11 *", "none of its months has such a day"),
        ("0 0 30W 2 *", "none of its months has such a day"),
    ];
    for (text, expected) in table {
        let error = parse(text).expect_err(text).to_string();
        assert!(
            error.starts_with(&format!("`{text}` is not a valid cron expression: ")),
            "{error}"
        );
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn rare_days_are_accepted() {
    for text in ["0 0 29 2 *", "0 0 30 2 MON", "0 0 31 4,5 *", "0 0 29W 2 *", "0 0 * 2 FRI#5"] {
        assert!(parse(text).is_ok(), "{text}");
    }
}
