//! How far the clock of another machine is ahead, as its answer to a question tells. Pure.

use std::time::SystemTime;

use crate::job::to_millis;

/// By how many milliseconds a clock is ahead that showed `theirs` at some moment between the own
/// times `asked` and `answered`; negative if it is behind. `None` if the round trip may explain the
/// whole difference. Half the round trip is uncertain. All times are whole milliseconds, rounded
/// down.
pub(crate) fn clock_offset_ms(
    asked: SystemTime,
    answered: SystemTime,
    theirs: SystemTime,
) -> Option<i64> {
    let millis = |time| i64::try_from(to_millis(time)).unwrap_or(i64::MAX);
    let [asked, answered, theirs] = [asked, answered, theirs].map(millis);
    let least = theirs.saturating_sub(answered).saturating_sub(1);
    let most = theirs.saturating_sub(asked).saturating_add(1);
    (least > 0 || most < 0).then(|| least.midpoint(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::from_millis;

    #[test]
    fn an_offset_is_known_beyond_half_the_round_trip() {
        for (asked, answered, theirs, expected) in [
            (1_000, 1_000, 1_000, None),
            (1_000, 1_100, 1_000, None),
            (1_000, 1_100, 1_101, None),
            (1_000, 1_100, 999, None),
            (1_000, 1_100, 1_102, Some(52)),
            (1_000, 1_100, 998, Some(-52)),
            (1_000, 1_100, 66_050, Some(65_000)),
            (100_000, 100_100, 40_050, Some(-60_000)),
            (0, 0, 253_402_300_000_000, Some(253_402_300_000_000)),
        ] {
            let [asked, answered, theirs] = [asked, answered, theirs].map(from_millis);
            let found = clock_offset_ms(asked, answered, theirs);
            let is_near = found.zip(expected).is_none_or(|(one, other)| one.abs_diff(other) <= 2);
            assert!(found.is_some() == expected.is_some() && is_near, "{found:?} {expected:?}");
        }
    }
}
