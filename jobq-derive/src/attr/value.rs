use jobq_names::period;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;
use syn::{Error, Ident, Lit, LitStr, Path, Result};

use super::entry::{self, Entry};
use crate::mistakes::Mistakes;

/// A number and the literal that says it.
pub(crate) struct Number<T> {
    pub(crate) value: T,
    pub(crate) literal: Lit,
}

/// A duration and the literal that says it.
pub(crate) struct Period {
    pub(crate) value: Duration,
    pub(crate) literal: LitStr,
}

/// What `delay` says.
pub(crate) enum Wait {
    Constant(Period),
    List { waits: Vec<Period>, tokens: TokenStream },
    Exponential(Growth),
}

/// What `on` says.
pub(crate) struct Texts {
    pub(crate) all: Vec<LitStr>,
    pub(crate) tokens: TokenStream,
}

/// What `exponential(...)` says.
pub(crate) struct Growth {
    pub(crate) first: Period,
    pub(crate) max: Option<Period>,
    pub(crate) factor: Option<Number<f64>>,
    pub(crate) jitter: Option<Number<f64>>,
}

const GROWTH_KEYS: [&str; 3] = ["max = \"1h\"", "factor = 2", "jitter = 0.1"];

const WAITS: &str = "write `delay = \"30s\"`, `delay = [\"10s\", \"1m\"]` or \
                     `delay = exponential(\"10s\", max = \"1h\")`";

pub(super) const PATTERNS: &str =
    "write `on = \"user.*\"` or `on = [\"user.created\", \"user.renamed\"]`";

pub(super) fn text(entry: &Entry) -> Result<LitStr> {
    match literal(&entry.value) {
        Some(Lit::Str(text)) if text.suffix().is_empty() => Ok(text),
        Some(Lit::Int(number)) => {
            let text = number.base10_digits();
            Err(wrong(entry, format!("is a string: write `{} = \"{text}\"`", entry.key)))
        }
        _ => Err(wrong(entry, format!("is a string, for example `{}`", entry.example))),
    }
}

pub(super) fn whole_number<T: FromStr + Display>(
    entry: &Entry,
    min: &T,
    max: &T,
) -> Result<Number<T>> {
    let literal = literal(&entry.value);
    let quoted = match &literal {
        Some(Lit::Str(text)) => text.value().trim().parse::<T>().ok(),
        _ => None,
    };
    if let Some(number) = quoted {
        return Err(wrong(entry, format!("is a number: write `{} = {number}`", entry.key)));
    }
    let value = match &literal {
        Some(Lit::Int(number)) if number.suffix().is_empty() => number.base10_digits().parse().ok(),
        _ => None,
    };
    match (value, literal) {
        (Some(value), Some(literal)) => Ok(Number { value, literal }),
        _ => Err(wrong(
            entry,
            format!("is a whole number from {min} to {max}, for example `{}`", entry.example),
        )),
    }
}

fn number(entry: &Entry) -> Result<Number<f64>> {
    let literal = literal(&entry.value);
    let value = match &literal {
        Some(Lit::Int(number)) if number.suffix().is_empty() => number.base10_parse().ok(),
        Some(Lit::Float(number)) if number.suffix().is_empty() => number.base10_parse().ok(),
        _ => None,
    };
    match (value.filter(|value: &f64| value.is_finite()), literal) {
        (Some(value), Some(literal)) => Ok(Number { value, literal }),
        _ => Err(wrong(entry, format!("is a number, for example `{}`", entry.example))),
    }
}

pub(super) fn period(entry: &Entry) -> Result<Period> {
    let (key, example) = (&entry.key, entry.example);
    let advice = "is a duration, a string with a unit, for example";
    period_of(&entry.value, format!("`{key}` {advice} `{example}`"))
}

/// Reads a duration. The message is for what is no duration at all.
fn period_of(tokens: &TokenStream, message: impl Display) -> Result<Period> {
    let bare = match literal(tokens) {
        Some(Lit::Str(literal)) => match period::parse(&literal.value()) {
            Ok(value) => return Ok(Period { value, literal }),
            Err(problem) => return Err(Error::new_spanned(literal, problem)),
        },
        Some(Lit::Int(number)) => format!("{}{}", number.base10_digits(), number.suffix()),
        Some(Lit::Float(number)) => {
            // A fraction has no place in a duration; `1.5` is best said in a smaller unit.
            return Err(Error::new_spanned(
                number,
                "a duration is a string of whole numbers with units, for example \"1m 30s\"",
            ));
        }
        _ => return Err(Error::new_spanned(tokens, message)),
    };
    let guess = match period::parse(&bare) {
        Ok(_) => bare,
        Err(_) => format!("{}s", bare.trim_end_matches(|c: char| !c.is_ascii_digit())),
    };
    let message = format!("a duration is a string with a unit: write \"{guess}\"");
    Err(Error::new_spanned(tokens, message))
}

/// Reads a duration of a list.
fn period_in_list(part: Vec<TokenTree>, example: &str) -> Result<Period> {
    let (part, example) = (part.into_iter().collect(), format!("\"{example}\""));
    entry::no_constant(&part, ("a duration", &example))?;
    period_of(&part, format!("expected a duration, for example {example}"))
}

/// Reads a `delay`; it may hold several mistakes.
pub(super) fn wait(entry: &Entry, mistakes: &mut Mistakes) -> Option<Wait> {
    let tokens: Vec<TokenTree> = entry.value.clone().into_iter().collect();
    if let Some(list) = entry::group(&tokens, Delimiter::Bracket) {
        return waits(list, entry, mistakes);
    }
    if let Some((TokenTree::Ident(function), arguments)) = tokens.split_first()
        && function == "exponential"
    {
        let arguments = entry::group(arguments, Delimiter::Parenthesis).unwrap_or_default();
        return growth(function, arguments, mistakes);
    }
    let period = period_of(&entry.value, format!("not a valid delay: {WAITS}"));
    mistakes.take(period).map(Wait::Constant)
}

fn waits(list: TokenStream, entry: &Entry, mistakes: &mut Mistakes) -> Option<Wait> {
    let parts = entry::split(list, mistakes);
    let count = parts.len();
    let mut waits = Vec::new();
    for part in parts {
        waits.extend(mistakes.take(period_in_list(part, "30s")));
    }
    (waits.len() == count).then(|| Wait::List { waits, tokens: entry.value.clone() })
}

fn growth(function: &Ident, arguments: TokenStream, mistakes: &mut Mistakes) -> Option<Wait> {
    let mut parts = entry::split(arguments, mistakes).into_iter().peekable();
    let named = |part: &Vec<TokenTree>| {
        matches!(part.first(), Some(TokenTree::Ident(_)))
            && !entry::is_constant(&part.iter().cloned().collect())
    };
    let first = if let Some(part) = parts.next_if(|part| !named(part)) {
        mistakes.take(period_in_list(part, "10s"))
    } else {
        mistakes.at(
            function,
            "`exponential` needs the first wait, for example `exponential(\"10s\", max = \"1h\")`",
        );
        None
    };
    let (mut max, mut factor, mut jitter) = (None, None, None);
    let mut seen = Vec::new();
    for part in parts {
        let entry = entry::read(part, &GROWTH_KEYS, &mut seen);
        let Some(entry) = mistakes.take(entry) else { continue };
        match entry::key_of(entry.example) {
            "max" => max = mistakes.take(period(&entry)),
            "factor" => factor = mistakes.take(number(&entry)),
            _ => jitter = mistakes.take(number(&entry)),
        }
    }
    first.map(|first| Wait::Exponential(Growth { first, max, factor, jitter }))
}

/// Reads an `on`; it may hold several mistakes.
pub(super) fn texts(
    entry: &Entry,
    (what, advice): (&str, &str),
    mistakes: &mut Mistakes,
) -> Option<Texts> {
    let tokens: Vec<TokenTree> = entry.value.clone().into_iter().collect();
    let example = entry.example.split_once(" = ").map_or("", |(_, example)| example);
    let (parts, advice) = match entry::group(&tokens, Delimiter::Bracket) {
        Some(list) => (entry::split(list, mistakes), format!("write a string such as {example}")),
        None => (vec![tokens], advice.to_owned()),
    };
    let count = parts.len();
    let mut all = Vec::new();
    for part in parts {
        let part: TokenStream = part.into_iter().collect();
        let written_out = entry::no_constant(&part, (&format!("a {what}"), example));
        match literal(&part) {
            Some(Lit::Str(text)) if text.suffix().is_empty() => all.push(text),
            _ if mistakes.take(written_out).is_none() => {}
            _ => mistakes.at(part, format!("not a valid {what}: {advice}")),
        }
    }
    (all.len() == count).then(|| Texts { all, tokens: entry.value.clone() })
}

pub(super) fn type_name(entry: &Entry) -> Result<Ident> {
    let text = text(entry)?;
    text.parse().map_err(|_| {
        Error::new_spanned(
            &text,
            format!("not a valid type name: write a name as in `{}`", entry.example),
        )
    })
}

pub(super) fn path(entry: &Entry) -> Result<Path> {
    let text = text(entry)?;
    text.parse_with(Path::parse_mod_style).map_err(|_| {
        Error::new_spanned(
            &text,
            "not a valid path: write the name of jobq in your Cargo.toml, \
             for example `crate = \"my_jobq\"`",
        )
    })
}

fn literal(tokens: &TokenStream) -> Option<Lit> {
    syn::parse2(tokens.clone()).ok()
}

/// A mistake in the value of this key.
fn wrong(entry: &Entry, what: impl Display) -> Error {
    Error::new_spanned(&entry.value, format!("`{}` {what}", entry.key))
}
