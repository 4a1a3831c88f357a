use quote::quote;

use crate::mistakes::Mistakes;
use crate::model::FunctionJob;
use crate::signature::Argument;

/// The rules for a function with `on`: its payload is the event.
pub(super) fn check(job: &FunctionJob, mistakes: &mut Mistakes) {
    if !job.policy.subscribes() {
        return;
    }
    let mut fields = job.fields();
    let Some(event) = fields.next() else {
        takes_the_event(job, mistakes);
        return;
    };
    no_serde(event, mistakes);
    if let Some(second) = fields.next() {
        takes_nothing_else(second, mistakes);
    }
}

// #[job(on = "user.*")] fn welcome(ctx: JobContext)
fn takes_the_event(job: &FunctionJob, mistakes: &mut Mistakes) {
    mistakes.add(syn::Error::new(
        job.function.signature.paren_token.span.join(),
        "a subscriber needs an argument for the event, for example `event: UserCreated`",
    ));
}

// #[job(on = "user.*")] fn welcome(event: UserCreated, vip: bool)
fn takes_nothing_else(second: &Argument, mistakes: &mut Mistakes) {
    let Argument { pattern, ty, .. } = second;
    mistakes.at(
        quote!(#pattern #ty),
        "the payload of a subscriber is a single argument, the event: make this a field of the \
         event, or take it from the worker pool as a `State<T>`, as a `JobContext` or with \
         `#[context]`",
    );
}

// #[job(on = "user.*")] fn welcome(#[serde(default)] event: UserCreated)
fn no_serde(event: &Argument, mistakes: &mut Mistakes) {
    mistakes.at_each(
        &event.serde,
        "the event is the whole payload, not a field of it: put the serde attributes on the \
         event's type",
    );
}
