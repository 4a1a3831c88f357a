//! Text for names and messages.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;

/// `send_welcome` to `SendWelcome`.
pub(crate) fn camel(name: &str) -> String {
    let mut camel = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(letters.as_str());
    }
    camel
}

/// `SendWelcome` to `send_welcome`, `HTTPFetch` to `http_fetch`.
pub(crate) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(index + 1);
        let word_starts = letter.is_uppercase()
            && before.is_some_and(|before| {
                before != '_'
                    && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
            });
        if word_starts {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// The known word that `word` is most likely meant to be, if it is close to one.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let (distance, nearest) =
        known.iter().map(|known| (distance(word, known), *known)).min_by_key(|(d, _)| *d)?;
    (distance <= nearest.len().max(word.len()).div_ceil(3)).then_some(nearest)
}

/// The number of letters to insert, remove or replace to make one word the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, from) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, to) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The words in backticks: `` `a`, `b` or `c` ``.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Code on one line with the spaces that people write.
pub(crate) fn code(tokens: impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string().replace('\n', " ");
    for (wide, narrow) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        (" ;", ";"),
    ] {
        text = text.replace(wide, narrow);
    }
    text
}

/// Whether there is such a word in these tokens, also in brackets.
pub(crate) fn has(tokens: TokenStream, is_it: &impl Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => has(group.stream(), is_it),
        TokenTree::Ident(word) => is_it(word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_name_their_payloads() {
        let table = [
            ("send_welcome", "SendWelcome"),
            ("cleanup", "Cleanup"),
            ("_later", "Later"),
            ("step_2", "Step2"),
            ("resize__image_", "ResizeImage"),
            ("straße_änder", "StraßeÄnder"),
            ("sendWelcome", "SendWelcome"),
            ("_", ""),
        ];
        for (function, payload) in table {
            assert_eq!(camel(function), payload);
        }
    }

    #[test]
    fn structs_name_their_jobs() {
        let table = [
            ("SendWelcome", "send_welcome"),
            ("Cleanup", "cleanup"),
            ("HTTPFetch", "http_fetch"),
            ("FetchHTTP", "fetch_http"),
            ("Step2Done", "step2_done"),
            ("snake_already", "snake_already"),
            ("Half_Camel", "half_camel"),
        ];
        for (payload, job) in table {
            assert_eq!(snake(payload), job);
        }
    }

    #[test]
    fn the_nearest_word_is_close() {
        let known = ["retries", "delay", "name", "queue", "timeout", "expires"];
        for (word, nearest_word) in [
            ("retrys", Some("retries")),
            ("retry", Some("retries")),
            ("time_out", Some("timeout")),
            ("Queue", Some("queue")),
            ("dealy", Some("delay")),
            ("priority", None),
            ("on", None),
        ] {
            assert_eq!(nearest(word, &known), nearest_word, "{word}");
        }
    }

    #[test]
    fn code_reads_as_people_write_it() {
        for text in [
            "Option<String>",
            "std::collections::HashMap<String, Vec<u8>>",
            "&'a [u8]",
            "::jobq::__private",
            "HashMap<String, (u8, [u8; 4])>",
        ] {
            assert_eq!(code(text.parse::<TokenStream>().unwrap()), text);
        }
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(list(&["a"]), "`a`");
    }
}
