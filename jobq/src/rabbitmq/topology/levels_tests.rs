use proptest::prelude::*;

use super::*;

const MAIL: End<'_> = End::Queue("mail");

/// Whether a topic exchange matches a key with a pattern.
fn takes(pattern: &str, key: &str) -> bool {
    fn all(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern, key) {
            ([], []) | (["#"], _) => true,
            (["*", pattern @ ..], [_, key @ ..]) => all(pattern, key),
            ([word, pattern @ ..], [first, key @ ..]) => word == first && all(pattern, key),
            _ => false,
        }
    }
    let pattern: Vec<_> = pattern.split('.').collect();
    let key: Vec<_> = key.split('.').collect();
    all(&pattern, &key)
}

/// Follows the bindings from an entry, and returns the levels and digits of the queues on the path.
fn walk(entry: &Entry) -> Vec<(u32, u64)> {
    let mut waits = Vec::new();
    for level in (0..=entry.level).rev() {
        let digits =
            digits(level).chain([0]).filter(|digit| takes(&pattern(level, *digit), &entry.key));
        let [digit] = digits.collect::<Vec<_>>()[..] else {
            panic!("one digit and no more takes {entry:?} at level {level}");
        };
        if digit > 0 {
            waits.push((level, digit));
        }
    }
    waits
}

fn waited(entry: &Entry) -> u64 {
    walk(entry).into_iter().map(|(level, digit)| ttl(level, digit)).sum()
}

#[test]
fn a_wait_is_written_in_digits() {
    let table = [
        (0, 0, "0.0.0.0.0.0.0.0.q.mail", 0),
        (1, 0, "0.0.0.0.0.0.0.1.q.mail", 100),
        (100, 0, "0.0.0.0.0.0.0.1.q.mail", 100),
        (101, 0, "0.0.0.0.0.0.0.2.q.mail", 200),
        (1_500, 0, "0.0.0.0.0.0.0.15.q.mail", 1_500),
        (1_501, 1, "0.0.0.0.0.0.1.0.q.mail", 1_600),
        (3_000, 1, "0.0.0.0.0.0.1.14.q.mail", 3_000),
        (86_400_000, 4, "0.0.0.13.2.15.0.0.q.mail", 86_400_000),
        (HORIZON, 7, "11.11.15.8.1.14.0.0.q.mail", HORIZON),
    ];
    for (millis, level, key, expected) in table {
        let entry = entry(millis, MAIL).unwrap();
        assert_eq!((entry.level, entry.key.as_str()), (level, key), "{millis}");
        assert_eq!(waited(&entry), expected, "{millis}");
    }
    assert_eq!(entry(HORIZON + 1, MAIL), None);
    assert_eq!(entry(u64::MAX, MAIL), None);
}

#[test]
fn every_wait_of_an_attribute_fits() {
    assert_eq!(LEVELS, 8);
    assert_eq!((0..LEVELS).flat_map(digits).count(), 116);
    assert_eq!(period::millis(period::MAX), HORIZON);
    let (queue, topic) = ("q".repeat(120), "t".repeat(200));
    for end in [End::Queue(&queue), End::Topic(&topic)] {
        let longest = entry(HORIZON, end).unwrap();
        assert!(longest.key.len() <= 255 && end_pattern(end).len() <= 255);
    }
}

#[test]
fn the_reach_of_each_number_of_levels() {
    let (second, hour) = (1_000, 3_600_000);
    let table = [
        (0, 1, 15),
        (1_500, 1, 15),
        (1_501, 2, 30),
        (25 * second, 2, 30),
        (60 * second, 3, 45),
        (hour, 4, 60),
        (109 * 60 * second, 4, 60),
        (2 * hour, 5, 75),
        (29 * hour, 5, 75),
        (30 * hour, 6, 90),
        (HORIZON, 8, 116),
        (u64::MAX, 8, 116),
    ];
    for (millis, levels, queues) in table {
        assert_eq!(needed(millis), levels, "{millis}");
        assert_eq!((0..levels).flat_map(digits).count(), queues, "{millis}");
    }
}

#[test]
fn a_level_looks_at_its_own_digit_alone() {
    assert_eq!(pattern(7, 5), "5.#");
    assert_eq!(pattern(5, 0), "*.*.0.#");
    assert_eq!(end_pattern(End::Queue("a.b")), "*.*.*.*.*.*.*.*.q.a.b");
    assert_eq!(end_pattern(End::Topic("a.#")), "*.*.*.*.*.*.*.*.e.a.#");
}

#[test]
fn only_keys_of_levels_have_an_end() {
    let table = [
        ("0.0.0.0.0.0.3.6.q.mail.welcome", Some(End::Queue("mail.welcome"))),
        ("0.0.0.0.0.0.3.6.e.user.created", Some(End::Topic("user.created"))),
        ("0.0.0.0.0.0.3.6.x.mail", None),
        ("0.0.0.0.0.0.3.6.q", None),
        ("0.0.0.0.0.0.3.q.mail", None),
        ("mail", None),
        ("", None),
    ];
    for (key, end) in table {
        assert_eq!(end_of(key), end, "{key}");
    }
}

#[test]
fn a_wait_is_over_when_no_digit_is_left() {
    let key = "0.0.0.0.0.2.0.1.e.user.created";
    for (level, over) in [(0, false), (2, false), (7, false)] {
        assert_eq!(is_over(key, level), over, "{level}");
    }
    let key = "0.0.0.0.0.2.0.0.e.user.created";
    for (level, over) in [(0, true), (1, true), (2, false), (7, false)] {
        assert_eq!(is_over(key, level), over, "{level}");
    }
}

/// Queue names that are easily confused with keys and with each other.
fn queue() -> impl Strategy<Value = String> {
    "(([0-7]|q|e|a)\\.){0,4}[0-7qa]|[A-Za-z0-9_.-]{1,120}"
}

proptest! {
    #[test]
    fn no_wait_is_too_short_or_much_too_long(millis in 0..=HORIZON, digits in 0_u32..44) {
        // Short waits as often as long ones.
        let millis = millis % (1 << digits);
        let waited = waited(&entry(millis, MAIL).unwrap());
        prop_assert!(waited >= millis && waited < millis + UNIT, "{} for {}", waited, millis);
    }

    #[test]
    fn each_queue_of_a_level_is_passed_once(millis in 0..=HORIZON) {
        let entry = entry(millis, MAIL).unwrap();
        let waits = walk(&entry);
        prop_assert!(waits.windows(2).all(|pair| pair[0].0 > pair[1].0));
        prop_assert_eq!(waits.first().map_or(0, |(level, _)| *level), entry.level);
    }

    #[test]
    fn the_destination_is_that_queue_and_no_other(
        millis in 0..=HORIZON, own in queue(), other in queue(),
    ) {
        let ends = |name| [End::Queue(name), End::Topic(name)];
        for own in ends(&own) {
            let entry = entry(millis, own).unwrap();
            prop_assert_eq!(end_of(&entry.key), Some(own));
            for other in ends(&other).into_iter().chain([own]) {
                prop_assert_eq!(takes(&end_pattern(other), &entry.key), own == other);
            }
        }
        let entry = entry(millis, End::Queue(&own)).unwrap();
        prop_assert_eq!(waited(&entry), millis.div_ceil(UNIT) * UNIT);
    }
}
