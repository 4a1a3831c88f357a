//! An [`Expectation`] to code. Nothing is decided here.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, Ident, Pat};

use super::texts::{self, Case};
use super::{Assertion, Expectation, Sought, source};
use crate::attr::Period;

pub(crate) fn expand(expectation: &Expectation) -> TokenStream {
    let Expectation { assertion, jobs, count, sought, within } = expectation;
    let private = private(assertion);
    let function = format_ident!("{}", if assertion.is_refutation() { "refute" } else { "assert" });
    let expected = match sought {
        Sought::Topic(topic) => quote!(#private::Expected::topic(#topic)),
        Sought::Payload { pattern, guard } => payload(assertion, pattern, guard.as_deref()),
    };
    let count = count.iter().map(|count| quote!(.count(#count)));
    let within = within.iter().map(|Period { literal, .. }| quote!(.within(#literal)));
    quote!(#private::#function(&(#jobs), &#expected #(#count)* #(#within)*))
}

fn private(assertion: &Assertion) -> TokenStream {
    let jobq = &assertion.jobq;
    quote!(#jobq::testing::__private)
}

fn payload(assertion: &Assertion, pattern: &Pat, guard: Option<&Expr>) -> TokenStream {
    let private = private(assertion);
    let condition = guard.iter().map(|guard| format!(" if {}", source::text(guard)));
    let text = source::text(pattern) + &condition.collect::<String>();
    let whole = whole(pattern);
    let value = Ident::new("value", Span::mixed_site());
    let cases = texts::cases(&whole);
    let matching = cases.iter().map(|case| arm(case, guard, &private));
    let refused = guard.iter().flat_map(|guard| {
        let text = source::text(guard);
        let arms = cases.iter().map(|case| arm(case, None, &private));
        arms.map(|arm| quote!(#arm #private::Compared::GuardIsFalse(#text),)).collect::<Vec<_>>()
    });
    // The compiler's errors about the type belong where the user names it.
    let place = place(&whole);
    let constructor = if assertion.is_of_jobs() { "job" } else { "event" };
    let constructor = Ident::new(constructor, place);
    let located = at(place, private.clone());
    let constructor = quote_spanned!(place=> #located::Expected::#constructor);
    quote! {
        #constructor(#text, |#value| {
            // Names without use, and patterns that match all values of a type.
            #[allow(unused_variables, unreachable_patterns, clippy::all, clippy::pedantic)]
            let compared = match #value {
                #(#matching #private::Compared::Matches,)*
                #(#refused)*
                _ => #private::Compared::Differs,
            };
            compared
        })
    }
}

/// The pattern that a payload is matched with: `Cleanup` is `Cleanup {}`, which is an error where no
/// such type is, and never a new name.
fn whole(pattern: &Pat) -> Pat {
    match pattern {
        Pat::Path(_) | Pat::Ident(_) => {
            let last = pattern.to_token_stream().into_iter().last();
            let end = last.map_or_else(Span::call_site, |token| token.span());
            syn::parse_quote_spanned!(end=> #pattern {})
        }
        _ => pattern.clone(),
    }
}

/// `pattern if conditions =>`.
fn arm(case: &Case, guard: Option<&Expr>, private: &TokenStream) -> TokenStream {
    let Case { pattern, texts } = case;
    let texts = texts.iter().map(|(name, text)| {
        let field = quote_spanned!(name.span()=> #private::text(#name));
        quote!((match #field { #text => true, _ => false }))
    });
    let conditions: Vec<TokenStream> = texts.chain(guard.map(|guard| quote!((#guard)))).collect();
    if conditions.is_empty() {
        return quote!(#pattern =>);
    }
    quote!(#pattern if #(#conditions)&&* =>)
}

/// Where the type is named.
fn place(whole: &Pat) -> Span {
    let path = match whole {
        Pat::Struct(pattern) => pattern.path.segments.last(),
        Pat::TupleStruct(pattern) => pattern.path.segments.last(),
        _ => None,
    };
    path.map_or_else(Span::call_site, |segment| segment.ident.span())
}

/// Moves tokens to a place, where they mean what they did.
fn at(place: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token: TokenTree| {
        token.set_span(place.resolved_at(token.span()));
        token
    });
    moved.collect()
}
