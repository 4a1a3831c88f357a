//! Tokens as the user wrote them.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;

/// The source text of these tokens, with one space for all space between two of them.
pub(super) fn text(tokens: impl ToTokens) -> String {
    let mut source = Source::default();
    source.add_all(tokens.to_token_stream());
    source.text
}

#[derive(Default)]
struct Source {
    text: String,
    end: Option<Place>,
}

/// A line and a column.
type Place = (usize, usize);

impl Source {
    fn add_all(&mut self, tokens: TokenStream) {
        for token in tokens {
            match &token {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        // A fragment of another macro.
                        Delimiter::None => {
                            self.add_all(group.stream());
                            continue;
                        }
                    };
                    // The group may know the place of the whole alone; a delimiter has one column.
                    let (begin, end) = (start(group.span_open()), end(group.span_close()));
                    self.add(open, begin, (begin.0, begin.1 + 1));
                    self.add_all(group.stream());
                    self.add(close, (end.0, end.1.saturating_sub(1)), end);
                }
                token => self.add(&token.to_string(), start(token.span()), end(token.span())),
            }
        }
    }

    fn add(&mut self, text: &str, start: Place, end: Place) {
        if self.end.is_some_and(|end| end != start) {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.end = Some(end);
    }
}

// `Span::unwrap` is the conversion to the span of the compiler. It panics outside of a macro alone.

fn start(span: Span) -> Place {
    let start = span.unwrap().start();
    (start.line(), start.column())
}

fn end(span: Span) -> Place {
    let end = span.unwrap().end();
    (end.line(), end.column())
}
