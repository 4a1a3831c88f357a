use syn::{Attribute, LitStr, Path};

use super::{CRATE, contents, entry, value};
use crate::mistakes::Mistakes;

/// What `#[event(...)]` says, with the tokens that say it.
#[derive(Default)]
pub(crate) struct EventOptions {
    pub(crate) topic: Option<LitStr>,
    pub(crate) path: Option<Path>,
}

/// Every key, each as one might write it.
const KEYS: [&str; 2] = ["topic = \"user.created\"", CRATE];

impl EventOptions {
    /// Reads all `#[event(...)]` of a type, as if they were one.
    pub(crate) fn read(attributes: &[Attribute], mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for tokens in contents(attributes, "event", KEYS[0], mistakes) {
            for tokens in entry::split(tokens, mistakes) {
                let entry = entry::read(tokens, &KEYS, &mut seen);
                let Some(entry) = mistakes.take(entry) else { continue };
                match entry::key_of(entry.example) {
                    "topic" => options.topic = mistakes.take(value::text(&entry)),
                    _ => options.path = mistakes.take(value::path(&entry)),
                }
            }
        }
        options
    }
}
