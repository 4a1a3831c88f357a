//! Matching of topics by patterns, like a topic exchange of RabbitMQ. Pure.

/// Whether the pattern matches a topic: `*` matches one word, `#` any number of words, including
/// none.
pub(crate) fn matches(pattern: &str, topic: &str) -> bool {
    let words = |text| -> Vec<&str> { str::split(text, '.').collect() };
    let (pattern, topic) = (words(pattern), words(topic));
    // The numbers of words of the topic that the pattern's words so far can match.
    let mut reached = vec![false; topic.len() + 1];
    reached[0] = true;
    for wanted in pattern {
        if wanted == "#" {
            let first = reached.iter().position(|reached| *reached).unwrap_or(reached.len());
            reached[first..].fill(true);
            continue;
        }
        for end in (1..reached.len()).rev() {
            reached[end] = reached[end - 1] && (wanted == "*" || wanted == topic[end - 1]);
        }
        reached[0] = false;
    }
    reached[topic.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_its_topics() {
        let table: [(&str, &[&str], &[&str]); 9] = [
            ("user.created", &["user.created"], &["user", "user.created.now", "user.renamed"]),
            ("user.*", &["user.created"], &["user", "user.created.now", "order.created"]),
            ("*", &["user"], &["user.created"]),
            ("#", &["user", "user.created", "a.b.c.d"], &[]),
            ("user.#", &["user", "user.created", "user.a.b"], &["order", "users"]),
            ("#.created", &["created", "user.created", "a.b.created"], &["created.user"]),
            ("#.b.#", &["b", "a.b", "b.c", "a.a.b.c.b"], &["a.c", "bb"]),
            ("*.#", &["a", "a.b", "a.b.c"], &[]),
            ("#.*.*", &["a.b", "a.b.c"], &["a"]),
        ];
        for (pattern, matching, others) in table {
            for topic in matching {
                assert!(matches(pattern, topic), "{pattern} matches {topic}");
            }
            for topic in others {
                assert!(!matches(pattern, topic), "{pattern} does not match {topic}");
            }
        }
    }

    #[test]
    fn a_pattern_of_many_wildcards_takes_no_time() {
        let (pattern, topic) = ("#.a.".repeat(48) + "#", "a.".repeat(98) + "b");
        assert!(matches(&pattern, &topic));
        assert!(!matches(&(pattern + ".c"), &topic));
    }
}
