//! Tokens to an [`Expectation`].

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{BinOp, Error, Expr, Lit, LitFloat, LitInt, LitStr, Pat, Result, Token};

use super::{Assertion, Expectation, Sought};
use crate::attr::{self, Period};
use crate::mistakes::Mistakes;

/// Reads `JOBS [, COUNT], PATTERN [if GUARD] [, within = "10m"]` behind the path to jobq and the
/// name of the macro.
pub(crate) fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Option<Expectation> {
    let expectation = (|input: ParseStream<'_>| parse(input, mistakes)).parse2(tokens);
    mistakes.take(expectation)
}

fn parse(input: ParseStream<'_>, mistakes: &mut Mistakes) -> Result<Expectation> {
    let assertion = Assertion { jobq: input.parse()?, name: input.parse()? };
    if input.is_empty() {
        let example = assertion.example("");
        let message = format!("the arguments are missing: write for example {example}");
        return Err(Error::new(Span::call_site(), message));
    }
    let jobs: Expr = input.parse()?;
    comma(input, &jobs, &assertion)?;
    let mut count = None;
    if input.peek(LitInt) || input.peek(LitFloat) || input.peek(Token![-]) {
        let number: Lit = input.parse()?;
        comma(input, &number, &assertion)?;
        count = mistakes.take(whole(number, &assertion));
    }
    let sought = sought(input, &assertion)?;
    let rest = input.parse()?;
    let within = end(rest, &assertion, &sought, mistakes);
    Ok(Expectation { assertion, jobs, count, sought, within })
}

/// The comma between an argument and the pattern.
fn comma(input: ParseStream<'_>, before: &dyn ToTokens, assertion: &Assertion) -> Result<()> {
    let example = assertion.example("");
    if !input.is_empty() && input.parse::<Token![,]>().is_err() {
        return Err(input.error(format!("expected a comma; write for example {example}")));
    }
    if input.is_empty() {
        let message = format!("the pattern is missing: write for example {example}");
        return Err(Error::new_spanned(before, message));
    }
    Ok(())
}

fn whole(number: Lit, assertion: &Assertion) -> Result<LitInt> {
    let name = &assertion.name;
    if assertion.is_refutation() {
        let message = format!("`{name}!` takes no number, since nothing may match: remove it");
        return Err(Error::new_spanned(number, message));
    }
    let value = match &number {
        Lit::Int(number) if number.suffix().is_empty() => number.base10_parse::<usize>().ok(),
        _ => None,
    };
    match (value, number) {
        (Some(0), number) => {
            let refutation = name.to_string().replace("assert", "refute");
            let message = format!("for no match at all, write `{refutation}!` without a number");
            Err(Error::new_spanned(number, message))
        }
        (Some(_), Lit::Int(number)) => Ok(number),
        (_, number) => {
            let example = assertion.example("2, ");
            let message = format!("the count is a whole number: write for example {example}");
            Err(Error::new_spanned(number, message))
        }
    }
}

fn sought(input: ParseStream<'_>, assertion: &Assertion) -> Result<Sought> {
    if input.peek(LitStr) {
        let text: LitStr = input.parse()?;
        if assertion.is_of_jobs() {
            let example = assertion.example("");
            let message =
                format!("a job is named by the type of its payload: write for example {example}");
            return Err(Error::new_spanned(text, message));
        }
        return Ok(Sought::Topic(text));
    }
    let pattern = Pat::parse_multi_with_leading_vert(input).map_err(|error| {
        Error::new(
            error.span(),
            "this is no pattern: write literals, names and `_`, as in a `match`, and compare with \
             anything else in a guard: `SendWelcome { user_id, .. } if *user_id == expected`",
        )
    })?;
    let guard = input.parse::<Option<Token![if]>>()?.map(|word| guard(word, input)).transpose()?;
    Ok(Sought::Payload { pattern: Box::new(pattern), guard })
}

fn guard(word: Token![if], input: ParseStream<'_>) -> Result<Box<Expr>> {
    if input.is_empty() || input.peek(Token![,]) {
        return Err(Error::new_spanned(
            word,
            "the guard is missing: write a condition behind `if`",
        ));
    }
    let guard: Box<Expr> = input.parse()?;
    match binding(&guard) {
        Some(binding) => Err(Error::new_spanned(
            binding,
            "a guard is a condition without `let`: write `matches!(..)`, or a pattern for the field",
        )),
        None => Ok(guard),
    }
}

/// The `let` of a condition such as `a && let Some(b) = c`.
fn binding(condition: &Expr) -> Option<&Expr> {
    match condition {
        Expr::Let(_) => Some(condition),
        Expr::Binary(both) if matches!(both.op, BinOp::And(_)) => {
            binding(&both.left).or_else(|| binding(&both.right))
        }
        _ => None,
    }
}

/// Reads what stands behind the pattern.
fn end(
    tokens: TokenStream,
    assertion: &Assertion,
    sought: &Sought,
    mistakes: &mut Mistakes,
) -> Option<Period> {
    let mut tokens = tokens.into_iter().peekable();
    let mistake = match (tokens.next()?, tokens.peek()) {
        (TokenTree::Punct(comma), next) if comma.as_char() == ',' => {
            misplaced(next?, assertion, sought)
        }
        (TokenTree::Ident(word), _) if word == "within" => {
            Some(Error::new_spanned(word, "write a comma before `within`"))
        }
        (TokenTree::Ident(word), _) if word == "if" && matches!(sought, Sought::Topic(_)) => {
            let message =
                "a topic has no fields for a guard: write `UserCreated { user_id, .. } if ..`";
            Some(Error::new_spanned(word, message))
        }
        (other, _) => Some(Error::new_spanned(other, "expected a comma or the end")),
    };
    match mistake {
        Some(mistake) => {
            mistakes.add(mistake);
            None
        }
        None => attr::within(tokens.collect(), mistakes),
    }
}

/// The mistake in an argument behind the pattern that is no option of a job.
fn misplaced(first: &TokenTree, assertion: &Assertion, sought: &Sought) -> Option<Error> {
    let is_within = matches!(first, TokenTree::Ident(word) if word == "within");
    match sought {
        _ if syn::parse2::<LitInt>(first.to_token_stream()).is_ok() => {
            let example = assertion.example("2, ");
            let message = format!("the count stands before the pattern: write {example}");
            Some(Error::new_spanned(first, message))
        }
        // assert_enqueued!(jobs, count, SendWelcome { .. })
        Sought::Payload { pattern, .. } if matches!(**pattern, Pat::Ident(_)) && !is_within => {
            let message = "the count is a literal: write for example `2`";
            Some(Error::new_spanned(pattern, message))
        }
        _ if assertion.is_of_jobs() => None,
        _ if is_within => {
            let message = "`within` is for jobs, which may wait until they are due: remove it";
            Some(Error::new_spanned(first, message))
        }
        _ => Some(Error::new_spanned(first, "expected the end")),
    }
}
