//! The rules for an [`Expectation`].

use jobq_names::topic;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Expr, Ident, Pat, PatIdent};

use super::{Assertion, Expectation, Sought};
use crate::mistakes::Mistakes;

pub(crate) fn check(expectation: &Expectation, mistakes: &mut Mistakes) {
    match &expectation.sought {
        Sought::Topic(topic) => mistakes.check(topic, topic::check),
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
            "the pattern must begin with one type: write `|` inside it, or use `_` and a guard",
        ),
        _ => {
            let example = assertion.example("");
            let message = format!("the pattern must begin with a type, as in {example}");
            mistakes.at(pattern, message);
        }
    }
}

// let email = ..; assert_enqueued!(jobs, SendWelcome { user_id: 7, email })
fn names_are_read(pattern: &Pat, guard: Option<&Expr>, mistakes: &mut Mistakes) {
    let mut names = Names(Vec::new());
    // Any other pattern is a type.
    if let Pat::Struct(_) | Pat::TupleStruct(_) = pattern {
        names.visit_pat(pattern);
    }
    let guard = guard.map(ToTokens::to_token_stream).unwrap_or_default();
    for name in names.0.iter().filter(|name| !reads(&guard, &name.to_string())) {
        let message = format!(
            "`{name}` is a new variable here and matches every value: compare it in a guard, such \
             as `if *{name} == expected`, or write `_` or `..`"
        );
        mistakes.at(name, message);
    }
}

/// The names in a pattern that match every value.
struct Names(Vec<Ident>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        // Others are constants and variants, or ignored.
        let is_new = pattern.ident.to_string().starts_with(char::is_lowercase);
        if is_new && pattern.subpat.is_none() && !self.0.contains(&pattern.ident) {
            self.0.push(pattern.ident.clone());
        }
        visit::visit_pat_ident(self, pattern);
    }
}

/// Whether these tokens have the name, be it in a text such as `"{name}"`.
fn reads(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match &token {
        TokenTree::Group(group) => reads(&group.stream(), name),
        TokenTree::Ident(word) => word == name,
        TokenTree::Literal(literal) => literal.to_string().contains(name),
        TokenTree::Punct(_) => false,
    })
}
