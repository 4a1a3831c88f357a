use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Ident;

use super::unknown;
use crate::mistakes::Mistakes;

/// `key = value`, or a key that takes no value.
pub(super) struct Entry {
    pub(super) key: Ident,
    pub(super) word: String,
    /// How this key might be written, for messages.
    pub(super) example: String,
    pub(super) value: TokenStream,
}

/// Cuts at the commas. One comma at the end is fine.
pub(super) fn split(tokens: TokenStream, mistakes: &mut Mistakes) -> Vec<Vec<TokenTree>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    for token in tokens {
        match &token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                if part.is_empty() {
                    mistakes.at(comma, "nothing stands before this comma: remove it");
                } else {
                    parts.push(std::mem::take(&mut part));
                }
            }
            _ => part.push(token),
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// Reads `key = value` or `key` with one of the keys, each at most once.
pub(super) fn read(
    tokens: Vec<TokenTree>,
    keys: &[(&str, &str)],
    seen: &mut Vec<String>,
    mistakes: &mut Mistakes,
) -> Option<Entry> {
    let mut rest = tokens.into_iter();
    let first = rest.next()?;
    let TokenTree::Ident(key) = first else {
        let example = keys.first().map_or("", |(_, example)| example);
        let tokens: TokenStream = std::iter::once(first).chain(rest).collect();
        mistakes.at(tokens, format!("expected a key and its value; write for example `{example}`"));
        return None;
    };
    let word = key.to_string();
    let Some((_, example)) = keys.iter().find(|(known, _)| *known == word) else {
        mistakes.at(&key, unknown(&key, keys));
        return None;
    };
    if seen.contains(&word) {
        mistakes.at(&key, format!("`{word}` is given twice; keep one"));
        return None;
    }
    seen.push(word.clone());
    let equals = rest.next();
    let value: TokenStream = rest.collect();
    if *example == word {
        if equals.is_some() {
            mistakes.at(&key, format!("`{word}` takes no value: write `{word}` alone"));
            return None;
        }
        return Some(Entry { key, word, example: (*example).to_owned(), value });
    }
    match equals {
        Some(TokenTree::Punct(equals)) if equals.as_char() == '=' && !value.is_empty() => {
            Some(Entry { key, word, example: (*example).to_owned(), value })
        }
        _ => {
            mistakes.at(&key, format!("`{word}` needs a value; write for example `{example}`"));
            None
        }
    }
}

/// The content of the only token, if that is a group in such brackets.
pub(super) fn group(tokens: &[TokenTree], delimiter: Delimiter) -> Option<TokenStream> {
    match tokens {
        [TokenTree::Group(group)] if group.delimiter() == delimiter => Some(group.stream()),
        _ => None,
    }
}
