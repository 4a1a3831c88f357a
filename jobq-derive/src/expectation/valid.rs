//! The rules for an [`Expectation`].

use jobq_names::topic;
use syn::Pat;

use super::{Assertion, Expectation, Sought};
use crate::mistakes::Mistakes;

pub(crate) fn check(expectation: &Expectation, mistakes: &mut Mistakes) {
    match &expectation.sought {
        Sought::Topic(topic) => {
            if let Err(problem) = topic::check(&topic.value()) {
                mistakes.at(topic, problem);
            }
        }
        Sought::Payload { pattern, .. } => names_a_type(pattern, &expectation.assertion, mistakes),
    }
}

// assert_enqueued!(jobs, _)
fn names_a_type(pattern: &Pat, assertion: &Assertion, mistakes: &mut Mistakes) {
    match pattern {
        Pat::Struct(_) | Pat::TupleStruct(_) | Pat::Path(_) => {}
        Pat::Ident(name)
            if name.by_ref.is_none() && name.mutability.is_none() && name.subpat.is_none() => {}
        Pat::Or(_) => mistakes.at(
            pattern,
            "the pattern has one type in front: write `|` inside of it, or `_` and a guard",
        ),
        _ => {
            let example = assertion.example("");
            let message = format!("the pattern begins with a type: write for example {example}");
            mistakes.at(pattern, message);
        }
    }
}
