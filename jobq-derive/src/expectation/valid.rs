//! The rules for an [`Expectation`].

use jobq_names::topic;
use syn::{Expr, Pat};

use super::{Assertion, Expectation, Sought, names};
use crate::mistakes::Mistakes;

pub(crate) fn check(expectation: &Expectation, mistakes: &mut Mistakes) {
    match &expectation.sought {
        Sought::Topic(topic) => {
            if let Err(problem) = topic::check(&topic.value()) {
                mistakes.at(topic, problem);
            }
        }
        Sought::Payload { pattern, guard } => {
            names_a_type(pattern, &expectation.assertion, mistakes);
            names_are_read(pattern, guard.as_deref(), mistakes);
        }
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

// let email = ..; assert_enqueued!(jobs, SendWelcome { user_id: 7, email })
fn names_are_read(pattern: &Pat, guard: Option<&Expr>, mistakes: &mut Mistakes) {
    for name in names::unread(pattern, guard) {
        mistakes.at(
            &name,
            format!(
                "`{name}` is a new name here and matches every value: compare it in a guard, such \
                 as `if *{name} == expected`, or write `_` or `..`"
            ),
        );
    }
}
