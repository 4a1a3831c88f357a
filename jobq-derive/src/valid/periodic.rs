use std::collections::HashSet;
use std::time::Duration;

use jobq_names::{cron, period};
use quote::quote;
use syn::Type;

use crate::attr::{Options, Texts};
use crate::mistakes::Mistakes;
use crate::model::FunctionJob;
use crate::words;

/// The treatments of missed times.
const MISSED: [&str; 3] = ["skip", "one", "all"];

/// The rules for the keys of periodic jobs.
pub(super) fn check(options: &Options, mistakes: &mut Mistakes) {
    let periodic = &options.periodic;
    if let Some(expressions) = &periodic.cron {
        expressions_are_valid(expressions, mistakes);
    }
    if let Some(every) = &periodic.every {
        if periodic.cron.is_some() {
            let message = "a job cannot have both `cron` and `every`: remove one of them";
            mistakes.at(&every.literal, message);
        }
        let (value, longest) = (every.value, period::format(period::MAX));
        if value < Duration::from_secs(1) || value.subsec_nanos() > 0 {
            let message = format!("write a period of whole seconds, from \"1s\" to \"{longest}\"");
            mistakes.at(&every.literal, message);
        }
    }
    if let Some(zone) = &periodic.zone {
        mistakes.check(zone, zone_has_a_form);
        if periodic.every.is_some() && periodic.cron.is_none() {
            let message = "a period is the same in every zone: remove `zone`, or use `cron`";
            mistakes.at(zone, message);
        }
    }
    if let Some(missed) = &periodic.missed {
        mistakes.check(missed, is_a_treatment);
    }
    needs_times(options, mistakes);
    has_no_events(options, mistakes);
}

// #[job(cron = ["0 25 * * *", "0 3 * * *", "0 3 * * *"])]
fn expressions_are_valid(expressions: &Texts, mistakes: &mut Mistakes) {
    if expressions.all.is_empty() {
        mistakes.at(
            &expressions.tokens,
            "the list of cron expressions is empty; write at least one, for example \
             `[\"30 2 * * *\"]`",
        );
    }
    let mut seen = HashSet::new();
    for expression in &expressions.all {
        let text = expression.value();
        if seen.insert(text.clone()) {
            mistakes.check(expression, |text| cron::parse(text).map(drop));
        } else {
            mistakes.at(expression, format!("`{text}` is given twice; keep one"));
        }
    }
}

// #[job(cron = "0 3 * * *", zone = "Europe Berlin")]. A pool that starts knows which zones there are.
fn zone_has_a_form(text: &str) -> Result<(), String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
    if !text.is_empty() && text.chars().all(is_of_name) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a time zone; use a name from the IANA database, such as `Europe/Berlin` or `UTC`",
        text.escape_debug()
    ))
}

// #[job(cron = "0 3 * * *", missed = "once")]
fn is_a_treatment(text: &str) -> Result<(), String> {
    if MISSED.contains(&text) {
        return Ok(());
    }
    let nearest = words::nearest(text, &MISSED);
    let advice = nearest.map_or_else(
        || "write \"skip\", \"one\" or \"all\"".to_owned(),
        |nearest| format!("did you mean \"{nearest}\"?"),
    );
    Err(format!("`{}` is not a value of `missed`; {advice}", text.escape_debug()))
}

// #[job(zone = "Europe/Berlin")]
fn needs_times(options: &Options, mistakes: &mut Mistakes) {
    let periodic = &options.periodic;
    if periodic.is_some() {
        return;
    }
    let jitter = periodic.jitter.as_ref().map(|jitter| &jitter.literal);
    let keys = [
        ("zone", periodic.zone.as_ref()),
        ("missed", periodic.missed.as_ref()),
        ("jitter", jitter),
    ];
    for (key, literal) in keys {
        mistakes.at_each(
            literal,
            format!("`{key}` belongs to a periodic job: add `cron = \"...\"` or `every = \"...\"`"),
        );
    }
}

// #[job(on = "user.*", every = "10m")]
fn has_no_events(options: &Options, mistakes: &mut Mistakes) {
    let Some(patterns) = &options.on else { return };
    if options.periodic.is_some() {
        mistakes.at(
            &patterns.tokens,
            "a job with `on` is enqueued by events, and cannot have `cron` or `every`: write two \
             functions, and call one from the other",
        );
    }
}

// #[job(every = "10m")] fn sample(sensor: u64)
pub(super) fn arguments(job: &FunctionJob, mistakes: &mut Mistakes) {
    if !job.policy.options.periodic.is_some() {
        return;
    }
    for argument in job.fields() {
        let is_option = matches!(&argument.ty, Type::Path(path)
            if path.path.segments.last().is_some_and(|last| last.ident == "Option"));
        let has_default = |attribute| words::has(quote!(#attribute), &|word| word == "default");
        if !is_option && !argument.serde.iter().any(has_default) {
            let (pattern, ty) = (&argument.pattern, &argument.ty);
            mistakes.at(
                quote!(#pattern #ty),
                "a periodic job is enqueued without arguments: take this one from the worker pool as \
                 a `State<T>`, give it a default with `#[serde(default)]`, or remove the times and \
                 pass the arguments to `client.schedule(..)`",
            );
        }
    }
}
