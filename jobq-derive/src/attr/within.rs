use proc_macro2::TokenStream;

use super::{Period, entry, value};
use crate::mistakes::Mistakes;

const KEYS: [(&str, &str); 1] = [("within", "within = \"10m\"")];

/// Reads what stands behind the pattern of an assertion.
pub(crate) fn within(tokens: TokenStream, mistakes: &mut Mistakes) -> Option<Period> {
    let mut seen = Vec::new();
    let mut within = None;
    for tokens in entry::split(tokens, mistakes) {
        if let Some(entry) = entry::read(tokens, &KEYS, &mut seen, mistakes) {
            within = mistakes.take(value::period(&entry));
        }
    }
    within
}
