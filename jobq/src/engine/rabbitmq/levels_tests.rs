use proptest::prelude::*;

use super::*;

/// Whether a topic exchange would take a key by a pattern.
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

/// Follows the bindings from where a message enters, and gives the digits of the queues
/// that it waits in, with their levels.
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
        (0, 0, "0.0.0.0.0.0.0.0.0.0.0.q.mail", 0),
        (1, 0, "0.0.0.0.0.0.0.0.0.0.1.q.mail", 100),
        (100, 0, "0.0.0.0.0.0.0.0.0.0.1.q.mail", 100),
        (101, 0, "0.0.0.0.0.0.0.0.0.0.2.q.mail", 200),
        (700, 0, "0.0.0.0.0.0.0.0.0.0.7.q.mail", 700),
        (701, 1, "0.0.0.0.0.0.0.0.0.1.0.q.mail", 800),
        (3_000, 1, "0.0.0.0.0.0.0.0.0.3.6.q.mail", 3_000),
        (86_400_000, 6, "0.0.0.0.3.2.2.7.4.0.0.q.mail", 86_400_000),
        (HORIZON, 10, "2.7.3.7.6.0.1.7.0.0.0.q.mail", HORIZON),
    ];
    for (millis, level, key, expected) in table {
        let entry = entry(millis, "mail").unwrap();
        assert_eq!((entry.level, entry.key.as_str()), (level, key), "{millis}");
        assert_eq!(waited(&entry), expected, "{millis}");
    }
    assert_eq!(entry(HORIZON + 1, "mail"), None);
    assert_eq!(entry(u64::MAX, "mail"), None);
}

#[test]
fn whatever_an_attribute_says_fits() {
    assert_eq!(LEVELS, 11);
    assert_eq!((0..LEVELS).flat_map(digits).count(), 72);
    assert_eq!(period::millis(period::MAX), HORIZON);
    let longest = entry(HORIZON, &"q".repeat(120)).unwrap();
    assert!(longest.key.len() <= 255 && delivery_pattern(&"q".repeat(120)).len() <= 255);
}

#[test]
fn a_level_looks_at_its_own_digit_alone() {
    assert_eq!(pattern(10, 5), "5.#");
    assert_eq!(pattern(8, 0), "*.*.0.#");
    assert_eq!(delivery_pattern("a.b"), "*.*.*.*.*.*.*.*.*.*.*.q.a.b");
}

#[test]
fn only_keys_of_levels_have_a_queue() {
    let table = [
        ("0.0.0.0.0.0.0.0.0.3.6.q.mail.welcome", Some("mail.welcome")),
        ("0.0.0.0.0.0.0.0.0.3.6.e.mail", None),
        ("0.0.0.0.0.0.0.0.0.3.q.mail", None),
        ("mail", None),
        ("", None),
    ];
    for (key, queue) in table {
        assert_eq!(queue_of(key), queue, "{key}");
    }
}

/// Names of queues that are hard to tell apart from keys and from each other.
fn queue() -> impl Strategy<Value = String> {
    "(([0-7]|q|e|a)\\.){0,4}[0-7qa]|[A-Za-z0-9_.-]{1,120}"
}

proptest! {
    #[test]
    fn no_wait_is_too_short_or_much_too_long(millis in 0..=HORIZON, digits in 0_u32..44) {
        // Short waits as often as long ones.
        let millis = millis % (1 << digits);
        let waited = waited(&entry(millis, "mail").unwrap());
        prop_assert!(waited >= millis && waited < millis + UNIT, "{} for {}", waited, millis);
    }

    #[test]
    fn each_queue_of_a_level_is_passed_once(millis in 0..=HORIZON) {
        let entry = entry(millis, "mail").unwrap();
        let waits = walk(&entry);
        prop_assert!(waits.windows(2).all(|pair| pair[0].0 > pair[1].0));
        prop_assert_eq!(waits.first().map_or(0, |(level, _)| *level), entry.level);
    }

    #[test]
    fn the_end_of_the_way_is_that_queue_and_no_other(
        millis in 0..=HORIZON, own in queue(), other in queue(),
    ) {
        let entry = entry(millis, &own).unwrap();
        prop_assert!(takes(&delivery_pattern(&own), &entry.key));
        prop_assert_eq!(takes(&delivery_pattern(&other), &entry.key), own == other);
        prop_assert_eq!(queue_of(&entry.key), Some(own.as_str()));
        prop_assert_eq!(waited(&entry), millis.div_ceil(UNIT) * UNIT);
    }
}
