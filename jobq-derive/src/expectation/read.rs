//! Tokens to an [`Expectation`].

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{BinOp, Error, Expr, Lit, LitFloat, LitInt, LitStr, Pat, Result, Token};

use super::{Assertion, Expectation, Sought};
use crate::attr;
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
        let message = format!("expected arguments, as in {example}");
        return Err(Error::new(Span::call_site(), message));
    }
    let jobs: Expr = input.parse()?;
    comma(input, &jobs, &assertion)?;
    let mut count = None;
    if input.peek(LitInt) || input.peek(LitFloat) || input.peek(Token![-]) {
        let number: Lit = input.parse()?;
        comma(input, &number, &assertion)?;
        count = mistakes.take(whole(&number, &assertion));
    }
    let sought = sought(input, &assertion)?;
    let rest = input.parse()?;
    let options = (|input: ParseStream<'_>| options(input, &assertion, &sought)).parse2(rest);
    let within = mistakes.take(options).and_then(|options| attr::within(options, mistakes));
    Ok(Expectation { assertion, jobs, count, sought, within })
}

/// The comma between an argument and the pattern.
fn comma(input: ParseStream<'_>, before: &dyn ToTokens, assertion: &Assertion) -> Result<()> {
    let example = assertion.example("");
    if !input.is_empty() && input.parse::<Token![,]>().is_err() {
        return Err(input.error(format!("expected a comma, as in {example}")));
    }
    if input.is_empty() {
        let message = format!("expected a pattern after this, as in {example}");
        return Err(Error::new_spanned(before, message));
    }
    Ok(())
}

fn whole(number: &Lit, assertion: &Assertion) -> Result<usize> {
    let name = &assertion.name;
    let value = match number {
        Lit::Int(number) if number.suffix().is_empty() => number.base10_parse().ok(),
        _ => None,
    };
    let message = match value {
        _ if assertion.is_refutation() => {
            format!("`{name}!` takes no count, since nothing may match: remove it")
        }
        Some(0) => {
            let refutation = name.to_string().replace("assert", "refute");
            format!("to expect no match, write `{refutation}!` without a count")
        }
        Some(value) => return Ok(value),
        None => {
            let example = assertion.example("2, ");
            format!("the count must be a whole number, as in {example}")
        }
    };
    Err(Error::new_spanned(number, message))
}

fn sought(input: ParseStream<'_>, assertion: &Assertion) -> Result<Sought> {
    if input.peek(LitStr) {
        let text: LitStr = input.parse()?;
        if assertion.is_of_jobs() {
            let example = assertion.example("");
            let message = format!("a job is identified by its payload type, as in {example}");
            return Err(Error::new_spanned(text, message));
        }
        return Ok(Sought::Topic(text));
    }
    let pattern = Pat::parse_multi_with_leading_vert(input).map_err(|error| {
        Error::new(
            error.span(),
            "expected a pattern: write literals, names and `_`, as in a `match`, and compare with \
             other values in a guard: `SendWelcome { user_id, .. } if *user_id == expected`",
        )
    })?;
    let guard = input.parse::<Option<Token![if]>>()?.map(|word| guard(word, input)).transpose()?;
    Ok(Sought::Payload { pattern: Box::new(pattern), guard })
}

fn guard(word: Token![if], input: ParseStream<'_>) -> Result<Box<Expr>> {
    if input.is_empty() || input.peek(Token![,]) {
        let message = "expected a guard: write a condition after `if`";
        return Err(Error::new_spanned(word, message));
    }
    let guard: Box<Expr> = input.parse()?;
    match binding(&guard) {
        Some(binding) => Err(Error::new_spanned(
            binding,
            "a guard cannot contain `let`: write `matches!(..)`, or a pattern for the field",
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

/// The tokens of the options behind the pattern.
fn options(input: ParseStream<'_>, assertion: &Assertion, sought: &Sought) -> Result<TokenStream> {
    let has_comma = input.parse::<Option<Token![,]>>()?.is_some();
    let Ok(first) = input.fork().parse::<TokenTree>() else {
        return Ok(TokenStream::new());
    };
    let word = first.to_string();
    let message = match sought {
        _ if !has_comma && word == "within" => "write a comma before `within`",
        Sought::Topic(_) if !has_comma && word == "if" => {
            "a topic has no fields for a guard: write `UserCreated { user_id, .. } if ..`"
        }
        _ if !has_comma => "expected a comma or the end of the arguments",
        _ if input.peek(LitInt) => {
            let example = assertion.example("2, ");
            &format!("the count goes before the pattern: write {example}")
        }
        // assert_enqueued!(jobs, count, SendWelcome { .. })
        Sought::Payload { pattern, .. }
            if matches!(**pattern, Pat::Ident(_)) && word != "within" =>
        {
            let message = "the count must be a literal, for example `2`";
            return Err(Error::new_spanned(pattern, message));
        }
        _ if assertion.is_of_jobs() => return input.parse(),
        _ if word == "within" => {
            "`within` applies only to jobs, which may wait until they are due: remove it"
        }
        _ => "expected the end of the arguments",
    };
    Err(Error::new_spanned(first, message))
}
