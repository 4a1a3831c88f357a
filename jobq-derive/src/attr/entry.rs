use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Error, Ident, Path, Result};

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
    if let Some(next) = next_key(value) {
        return Err(Error::new_spanned(next, format!("write a comma before `{next}`")));
    }
    let value = value.iter().cloned().collect();
    no_constant(&value, (&format!("`{word}`"), example))?;
    Ok(Entry { key: key.clone(), example, value })
}

/// The next key, if there is no comma before it.
fn next_key(value: &[TokenTree]) -> Option<&Ident> {
    value.windows(2).find_map(|pair| match pair {
        [TokenTree::Ident(key), TokenTree::Punct(equals)] if equals.as_char() == '=' => Some(key),
        _ => None,
    })
}

/// An error if a value is the name of a constant, such as `TIMEOUT` or `UserCreated::TOPIC`.
pub(super) fn no_constant(value: &TokenStream, (what, example): (&str, &str)) -> Result<()> {
    if !is_constant(value) {
        return Ok(());
    }
    let message = format!(
        "{what} must be written out here, since a macro cannot read a `const`: for example `{example}`"
    );
    Err(Error::new_spanned(value, message))
}

/// Whether this is the name of a constant.
pub(super) fn is_constant(value: &TokenStream) -> bool {
    syn::parse2::<Path>(value.clone()).is_ok_and(|path| {
        let last = path.segments.last().map(|last| last.ident.to_string());
        path.segments.len() > 1 || last.is_some_and(|last| last == last.to_uppercase())
    })
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
