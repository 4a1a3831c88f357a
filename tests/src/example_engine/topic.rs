//! Topic patterns, as in AMQP: `*` is one word, `#` any number of them.

/// Whether a pattern means this topic.
pub(super) fn matches(pattern: &str, topic: &str) -> bool {
    let (pattern, topic): (Vec<_>, Vec<_>) =
        (pattern.split('.').collect(), topic.split('.').collect());
    words_match(&pattern, &topic)
}

fn words_match(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern.split_first(), topic.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), None) => words_match(rest, topic),
        (Some((&"#", rest)), Some((_, later))) => {
            words_match(rest, topic) || words_match(pattern, later)
        }
        (Some((word, rest)), Some((first, later))) => {
            (*word == "*" || word == first) && words_match(rest, later)
        }
        _ => false,
    }
}
