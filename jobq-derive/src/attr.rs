//! Tokens to options: what the keys of `#[job(...)]` and `#[event(...)]` say, one by one.
//! How they go together is for [`valid`](crate::valid).

mod entry;
mod event;
mod value;
mod within;

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::{Ident, LitStr, Path};

use crate::mistakes::Mistakes;
use crate::words;
use entry::Entry;
pub(crate) use event::EventOptions;
pub(crate) use value::{Growth, Number, Patterns, Period, Wait};
pub(crate) use within::within;

/// What `#[job(...)]` says, with the tokens that say it.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) retries: Option<Number<u32>>,
    pub(crate) delay: Option<Wait>,
    pub(crate) name: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) timeout: Option<Period>,
    pub(crate) concurrency: Option<Number<u16>>,
    pub(crate) expires: Option<Period>,
    pub(crate) payload: Option<Ident>,
    pub(crate) on: Option<Patterns>,
    pub(crate) unchecked: bool,
    pub(crate) path: Option<Path>,
}

/// What `#[job(...)]` stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Function,
    Struct,
}

const RETRIES: &str = "retries";
const DELAY: &str = "delay";
const NAME: &str = "name";
const QUEUE: &str = "queue";
const TIMEOUT: &str = "timeout";
const CONCURRENCY: &str = "concurrency";
const EXPIRES: &str = "expires";
const PAYLOAD: &str = "payload";
const ON: &str = "on";
const UNCHECKED: &str = "unchecked";
const CRATE: &str = "crate";

/// Every key, each as one might write it. One that is written alone takes no value.
const KEYS: [(&str, &str); 11] = [
    (RETRIES, "retries = 3"),
    (DELAY, "delay = \"30s\""),
    (NAME, "name = \"mail.welcome\""),
    (QUEUE, "queue = \"mail\""),
    (TIMEOUT, "timeout = \"2m\""),
    (CONCURRENCY, "concurrency = 8"),
    (EXPIRES, "expires = \"1h\""),
    (PAYLOAD, "payload = \"WelcomeMail\""),
    (ON, "on = \"user.*\""),
    (UNCHECKED, UNCHECKED),
    (CRATE, "crate = \"my_jobq\""),
];

impl Options {
    /// Reads what stands between the parentheses.
    pub(crate) fn read(tokens: TokenStream, place: Place, mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        options.add(tokens, place, &mut Vec::new(), mistakes);
        options
    }

    /// Reads all `#[job(...)]` of a struct, as if they were one.
    pub(crate) fn of_struct(attributes: &[syn::Attribute], mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for tokens in contents(attributes, "job", "queue = \"mail\"", mistakes) {
            options.add(tokens, Place::Struct, &mut seen, mistakes);
        }
        options
    }

    fn add(
        &mut self,
        tokens: TokenStream,
        place: Place,
        seen: &mut Vec<String>,
        mistakes: &mut Mistakes,
    ) {
        let keys: Vec<(&str, &str)> = KEYS
            .into_iter()
            .filter(|(key, _)| place == Place::Function || *key != PAYLOAD)
            .collect();
        for tokens in entry::split(tokens, mistakes) {
            if is_payload_of_struct(&tokens, place) {
                mistakes.at(
                    &tokens[0],
                    "`payload` names the type that `#[job]` makes of a function; here the struct \
                     is the payload: remove this key",
                );
                continue;
            }
            let entry = entry::read(tokens, &keys, seen, mistakes);
            if let Some(entry) = entry {
                self.set(&entry, mistakes);
            }
        }
    }

    fn set(&mut self, entry: &Entry, mistakes: &mut Mistakes) {
        match entry.word.as_str() {
            RETRIES => self.retries = mistakes.take(value::whole_number(entry, &0, &u32::MAX)),
            DELAY => self.delay = value::wait(entry, mistakes),
            NAME => self.name = mistakes.take(value::text(entry)),
            QUEUE => self.queue = mistakes.take(value::text(entry)),
            TIMEOUT => self.timeout = mistakes.take(value::period(entry)),
            CONCURRENCY => {
                self.concurrency = mistakes.take(value::whole_number(entry, &1, &u16::MAX));
            }
            EXPIRES => self.expires = mistakes.take(value::period(entry)),
            PAYLOAD => self.payload = mistakes.take(value::type_name(entry)),
            ON => self.on = value::patterns(entry, mistakes),
            UNCHECKED => self.unchecked = true,
            CRATE => self.path = mistakes.take(value::path(entry)),
            _ => {}
        }
    }
}

/// What stands between the parentheses of each attribute of this name.
fn contents(
    attributes: &[syn::Attribute],
    name: &str,
    example: &str,
    mistakes: &mut Mistakes,
) -> Vec<TokenStream> {
    let mut contents = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
        match &attribute.meta {
            syn::Meta::Path(_) => {}
            syn::Meta::List(list) => contents.push(list.tokens.clone()),
            syn::Meta::NameValue(wrong) => {
                mistakes
                    .at(wrong, format!("write the keys in parentheses: `#[{name}({example})]`"));
            }
        }
    }
    contents
}

fn is_payload_of_struct(tokens: &[proc_macro2::TokenTree], place: Place) -> bool {
    place == Place::Struct
        && matches!(tokens.first(), Some(proc_macro2::TokenTree::Ident(key)) if key == PAYLOAD)
}

/// The message for a key that there is not.
fn unknown(key: &Ident, keys: &[(&str, &str)]) -> String {
    let words: Vec<&str> = keys.iter().map(|(word, _)| *word).collect();
    let word = key.unraw().to_string();
    if ["cron", "schedule", "every"].contains(&word.as_str()) {
        return format!(
            "there is no key `{word}`: jobq starts no jobs by a schedule; enqueue the job from a \
             timer of your program, with `.at(..)` or `.delay(..)` where it is to wait"
        );
    }
    match words::nearest(&word, &words) {
        Some(nearest) => format!("there is no key `{word}`; did you mean `{nearest}`?"),
        None => format!("there is no key `{word}`; use {}", words::list(&words)),
    }
}
