use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Error, Ident, Result};

use super::unknown;
use crate::mistakes::Mistakes;

/// `key = value`, or a key that takes no value.
pub(super) struct Entry {
    pub(super) key: Ident,
    /// How this key might be written, for messages.
    pub(super) example: &'static str,
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
                    mistakes.at(comma, "unexpected comma: remove it");
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
    keys: &[&'static str],
    seen: &mut Vec<String>,
) -> Result<Entry> {
    let [TokenTree::Ident(key), rest @ ..] = &tokens[..] else {
        let message = format!("expected a key and its value, for example `{}`", keys[0]);
        return Err(Error::new_spanned(TokenStream::from_iter(tokens), message));
    };
    let wrong = |message| Err(Error::new_spanned(key, message));
    let word = key.to_string();
    let Some(&example) = keys.iter().find(|example| key_of(example) == word) else {
        return wrong(unknown(key, keys));
    };
    if seen.contains(&word) {
        return wrong(format!("`{word}` is given twice; keep one"));
    }
    seen.push(word.clone());
    let value = match rest {
        [] if example == word => rest,
        _ if example == word => {
            return wrong(format!("`{word}` takes no value: write `{word}` alone"));
        }
        [TokenTree::Punct(equals), value @ ..] if equals.as_char() == '=' && !value.is_empty() => {
            value
        }
        _ => return wrong(format!("`{word}` needs a value, for example `{example}`")),
    };
    Ok(Entry { key: key.clone(), example, value: value.iter().cloned().collect() })
}

/// The key in an example.
pub(super) fn key_of(example: &str) -> &str {
    example.split(' ').next().unwrap_or_default()
}

/// The content of the only token, if that is a group in such brackets.
pub(super) fn group(tokens: &[TokenTree], delimiter: Delimiter) -> Option<TokenStream> {
    match tokens {
        [TokenTree::Group(group)] if group.delimiter() == delimiter => Some(group.stream()),
        _ => None,
    }
}
