use jobq_names::{name, period, topic};
use quote::ToTokens;
use std::collections::HashSet;
use std::time::Duration;

use super::periodic;
use crate::attr::{Growth, Number, Options, Period, Texts, Wait};
use crate::mistakes::Mistakes;
use crate::model::Policy;
use crate::words;

/// The priorities that an attribute may name.
const PRIORITIES: [&str; 3] = ["high", "normal", "low"];

/// The rules for what the keys say.
pub(super) fn check(policy: &Policy, mistakes: &mut Mistakes) {
    let options = &policy.options;
    name_is_valid(policy, mistakes);
    queue_is_valid(options, mistakes);
    not_zero(options.timeout.as_ref(), "no attempt could end in time", mistakes);
    not_zero(options.expires.as_ref(), "the job would expire at once", mistakes);
    some_concurrency(options, mistakes);
    match &options.delay {
        Some(Wait::List { waits, tokens }) => {
            list_is_not_empty(waits, tokens, mistakes);
            list_fits_retries(waits, options, mistakes);
        }
        Some(Wait::Exponential(growth)) => {
            waits_grow(growth, mistakes);
            jitter_is_a_share(growth, mistakes);
            longest_is_not_below_first(growth, mistakes);
        }
        Some(Wait::Constant(_)) | None => {}
    }
    if let Some(priority) = &options.priority {
        mistakes.check(priority, is_a_priority);
    }
    no_event_has_a_priority(options, mistakes);
    periodic::check(options, mistakes);
    if let Some(patterns) = &options.on {
        some_pattern(patterns, mistakes);
        each_pattern_is_valid(patterns, mistakes);
    }
}

// #[job(name = "a b")], or `fn größe` without a name
fn name_is_valid(policy: &Policy, mistakes: &mut Mistakes) {
    let Err(problem) = name::check(&policy.name.value()) else {
        return;
    };
    match &policy.options.name {
        Some(literal) => mistakes.at(literal, problem),
        None => mistakes.add(syn::Error::new(
            policy.name.span(),
            format!("{problem}; or name the job: `name = \"...\"`"),
        )),
    }
}

// #[job(queue = "mail:fast")]
fn queue_is_valid(options: &Options, mistakes: &mut Mistakes) {
    if let Some(queue) = &options.queue {
        mistakes.check(queue, name::check);
    }
}

// #[job(timeout = "0s")]
fn not_zero(period: Option<&Period>, consequence: &str, mistakes: &mut Mistakes) {
    if let Some(period) = period
        && period.value == Duration::ZERO
    {
        let text = period.literal.value();
        let advice = "write a longer duration or remove the key";
        mistakes.at(&period.literal, format!("with `{text}`, {consequence}; {advice}"));
    }
}

// #[job(concurrency = 0)]
fn some_concurrency(options: &Options, mistakes: &mut Mistakes) {
    if let Some(concurrency) = &options.concurrency
        && concurrency.value == 0
    {
        mistakes.at(&concurrency.literal, "with 0, no attempt could ever start; write 1 or more");
    }
}

// #[job(priority = "urgent")]
fn is_a_priority(text: &str) -> Result<(), String> {
    if PRIORITIES.contains(&text) {
        return Ok(());
    }
    Err(match words::nearest(text, &PRIORITIES) {
        Some(nearest) => format!("`{text}` is not a priority; did you mean `{nearest}`?"),
        None => format!("`{text}` is not a priority; expected {}", words::list(&PRIORITIES)),
    })
}

// #[job(priority = "high", on = "user.*")]
fn no_event_has_a_priority(options: &Options, mistakes: &mut Mistakes) {
    const MESSAGE: &str = "events have no priority, since their publisher does not know the \
                           subscribers: remove this key";
    if options.on.is_none() {
        return;
    }
    if let Some(priority) = &options.priority {
        mistakes.at(priority, MESSAGE);
    }
    if let Some(priorities) = &options.priorities {
        mistakes.at(priorities, MESSAGE);
    }
}

// #[job(delay = [])]
fn list_is_not_empty(waits: &[Period], tokens: &impl ToTokens, mistakes: &mut Mistakes) {
    if waits.is_empty() {
        mistakes
            .at(tokens, "the list of waits is empty; write at least one, for example `[\"30s\"]`");
    }
}

// #[job(retries = 1, delay = ["10s", "1m"])]
fn list_fits_retries(waits: &[Period], options: &Options, mistakes: &mut Mistakes) {
    if let Some(Number { value: retries, .. }) = &options.retries
        && let Some(unused) = usize::try_from(*retries).ok().and_then(|retries| waits.get(retries))
    {
        let count = waits.len();
        let message = format!(
            "`retries = {retries}` never reaches this wait: remove it or write \
             `retries = {count}`"
        );
        mistakes.at(&unused.literal, message);
    }
}

// #[job(delay = exponential("10s", factor = 0.5))]
fn waits_grow(growth: &Growth, mistakes: &mut Mistakes) {
    if let Some(factor) = &growth.factor
        && factor.value < 1.0
    {
        mistakes
            .at(&factor.literal, "with a factor below 1, the waits would shrink; write 1 or more");
    }
}

// #[job(delay = exponential("10s", jitter = 10))]
fn jitter_is_a_share(growth: &Growth, mistakes: &mut Mistakes) {
    if let Some(jitter) = &growth.jitter
        && !(0.0..=1.0).contains(&jitter.value)
    {
        mistakes
            .at(&jitter.literal, "`jitter` is a fraction of the wait: write a number from 0 to 1");
    }
}

// #[job(delay = exponential("10s", max = "5s"))]
fn longest_is_not_below_first(growth: &Growth, mistakes: &mut Mistakes) {
    if let Some(max) = &growth.max
        && max.value < growth.first.value
    {
        let (longest, first) = (period::format(max.value), period::format(growth.first.value));
        mistakes.at(
            &max.literal,
            format!("the longest wait, {longest}, is shorter than the first, {first}; write `max = \"{first}\"` or more"),
        );
    }
}

// #[job(on = [])]
fn some_pattern(patterns: &Texts, mistakes: &mut Mistakes) {
    if patterns.all.is_empty() {
        mistakes.at(
            &patterns.tokens,
            "the list of topic patterns is empty; write at least one, for example `[\"user.*\"]`",
        );
    }
}

// #[job(on = ["user*", "user.*", "user.*"])]
fn each_pattern_is_valid(patterns: &Texts, mistakes: &mut Mistakes) {
    let mut seen = HashSet::new();
    for pattern in &patterns.all {
        let text = pattern.value();
        if seen.insert(text.clone()) {
            mistakes.check(pattern, topic::check_pattern);
        } else {
            mistakes.at(pattern, format!("`{text}` is given twice; keep one"));
        }
    }
}
