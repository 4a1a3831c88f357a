use syn::{Attribute, LitStr, Path};

use super::{CRATE, contents, entry, value};
use crate::mistakes::Mistakes;

/// What `#[event(...)]` says, with the tokens that say it.
#[derive(Default)]
pub(crate) struct EventOptions {
    pub(crate) topic: Option<LitStr>,
    pub(crate) path: Option<Path>,
}

const TOPIC: &str = "topic";

/// Every key, each as one might write it.
const KEYS: [(&str, &str); 2] =
    [(TOPIC, "topic = \"user.created\""), (CRATE, "crate = \"my_jobq\"")];

impl EventOptions {
    /// Reads all `#[event(...)]` of a type, as if they were one.
    pub(crate) fn read(attributes: &[Attribute], mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        let mut seen = Vec::new();
        let (_, example) = KEYS[0];
        for tokens in contents(attributes, "event", example, mistakes) {
            for tokens in entry::split(tokens, mistakes) {
                let Some(entry) = entry::read(tokens, &KEYS, &mut seen, mistakes) else {
                    continue;
                };
                match entry.word.as_str() {
                    TOPIC => options.topic = mistakes.take(value::text(&entry)),
                    CRATE => options.path = mistakes.take(value::path(&entry)),
                    _ => {}
                }
            }
        }
        options
    }
}
