//! Tokens to options: what the keys of `#[job(...)]` and `#[event(...)]` say, one by one.
//! How they go together is for [`valid`](crate::valid).

mod entry;
mod event;
mod periodic;
mod value;

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::{Ident, LitStr, Path};

use crate::mistakes::Mistakes;
use crate::words;
use entry::Entry;
pub(crate) use event::EventOptions;
pub(crate) use periodic::PeriodicOptions;
pub(crate) use value::{Growth, Number, Period, Texts, Wait};

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
    pub(crate) on: Option<Texts>,
    pub(crate) priority: Option<LitStr>,
    /// The word `priorities`, if it is there.
    pub(crate) priorities: Option<Ident>,
    pub(crate) periodic: PeriodicOptions,
    pub(crate) unchecked: bool,
    pub(crate) path: Option<Path>,
}

/// What `#[job(...)]` stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Function,
    Struct,
}

/// Every key, each as one might write it. One that is written alone takes no value.
const KEYS: [&str; 18] = [
    "retries = 3",
    "delay = \"30s\"",
    "name = \"mail.welcome\"",
    "queue = \"mail\"",
    "timeout = \"2m\"",
    "concurrency = 8",
    "expires = \"1h\"",
    "payload = \"WelcomeMail\"",
    "priority = \"high\"",
    "priorities",
    "on = \"user.*\"",
    periodic::CRON,
    periodic::EVERY,
    periodic::ZONE,
    periodic::MISSED,
    periodic::JITTER,
    "unchecked",
    CRATE,
];
const CRATE: &str = "crate = \"my_jobq\"";

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
        let mut keys = KEYS.to_vec();
        keys.retain(|key| place == Place::Function || !key.starts_with("payload"));
        for tokens in entry::split(tokens, mistakes) {
            if is_payload_of_struct(&tokens, place) {
                mistakes.at(
                    &tokens[0],
                    "`payload` names the type that `#[job]` generates for a function; here the \
                     struct is the payload: remove this key",
                );
                continue;
            }
            let entry = entry::read(tokens, &keys, seen);
            if let Some(entry) = mistakes.take(entry) {
                self.set(&entry, mistakes);
            }
        }
    }

    fn set(&mut self, entry: &Entry, mistakes: &mut Mistakes) {
        match entry::key_of(entry.example) {
            "retries" => self.retries = mistakes.take(value::whole_number(entry, &0, &u32::MAX)),
            "delay" => self.delay = value::wait(entry, mistakes),
            "name" => self.name = mistakes.take(value::text(entry)),
            "queue" => self.queue = mistakes.take(value::text(entry)),
            "timeout" => self.timeout = mistakes.take(value::period(entry)),
            "concurrency" => {
                self.concurrency = mistakes.take(value::whole_number(entry, &1, &u16::MAX));
            }
            "expires" => self.expires = mistakes.take(value::period(entry)),
            "payload" => self.payload = mistakes.take(value::type_name(entry)),
            "on" => self.on = value::texts(entry, ("topic pattern", value::PATTERNS), mistakes),
            "priority" => self.priority = mistakes.take(value::text(entry)),
            "priorities" => self.priorities = Some(entry.key.clone()),
            "unchecked" => self.unchecked = true,
            _ if self.periodic.set(entry, mistakes) => {}
            _ => self.path = mistakes.take(value::path(entry)),
        }
    }
}

/// Reads the `within` of an assertion.
pub(crate) fn within(tokens: TokenStream, mistakes: &mut Mistakes) -> Option<Period> {
    let (mut seen, mut within) = (Vec::new(), None);
    for tokens in entry::split(tokens, mistakes) {
        let entry = entry::read(tokens, &["within = \"10m\""], &mut seen);
        within = mistakes.take(entry.and_then(|entry| value::period(&entry)));
    }
    within
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
        && matches!(tokens.first(), Some(proc_macro2::TokenTree::Ident(key)) if key == "payload")
}

/// The message for a key that there is not.
fn unknown(key: &Ident, keys: &[&str]) -> String {
    let words: Vec<&str> = keys.iter().map(|example| entry::key_of(example)).collect();
    let word = key.unraw().to_string();
    if words.contains(&"retries")
        && let Some(advice) = of_others(&word)
    {
        return format!("unknown key `{word}`: {advice}");
    }
    match words::nearest(&word, &words) {
        Some(nearest) => format!("unknown key `{word}`; did you mean `{nearest}`?"),
        None => format!("unknown key `{word}`; expected {}", words::list(&words)),
    }
}

/// The advice for a key that other job queues have.
fn of_others(word: &str) -> Option<&'static str> {
    Some(match word {
        "schedule" | "crontab" | "interval" | "repeat" => {
            "write `cron = \"30 2 * * *\"`, or `every = \"10m\"` for a period"
        }
        "tz" | "timezone" | "time_zone" => "write `zone = \"Europe/Berlin\"`",
        "misfire" => {
            "write `missed`, which says what happens to missed times: `missed = \
                      \"skip\"`, `\"one\"` or `\"all\"`"
        }
        "level" | "weight" => "write `priority = \"high\"`",
        "unique" => {
            "jobq has no unique jobs; let the function look whether its work is done already, \
             since a job may run twice in any case"
        }
        "max_attempts" | "attempts" => {
            "write `retries`, the attempts after the first one: `retries = 2` for three attempts"
        }
        "backoff" => {
            "write `delay`, the wait before each retry: `delay = \"30s\"`, `delay = [\"10s\", \
             \"1m\"]` or `delay = exponential(\"10s\", max = \"1h\")`"
        }
        "bind" => "remove it, and add the argument `ctx: JobContext` to the function",
        "default_retry_delay" | "retry_delay" | "countdown" | "retry_backoff" => {
            "write `delay`, the wait before each retry: `delay = \"30s\"` or `delay = \
             exponential(\"10s\", max = \"1h\")`"
        }
        "autoretry_for" | "retry_on" | "discard_on" => {
            "every error is retried; for one that should not be, return \
             `Err(jobq::abort(error).into())`"
        }
        _ => return None,
    })
}
