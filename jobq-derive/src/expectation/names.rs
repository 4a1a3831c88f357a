//! The names that a pattern binds.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Expr, Ident, Pat, PatIdent};

/// The names in this pattern that match every value and that the guard does not read.
pub(super) fn unread(pattern: &Pat, guard: Option<&Expr>) -> Vec<Ident> {
    let mut names = Names(Vec::new());
    match pattern {
        Pat::Struct(pattern) => names.visit_pat_struct(pattern),
        Pat::TupleStruct(pattern) => names.visit_pat_tuple_struct(pattern),
        // A type.
        _ => {}
    }
    let guard = guard.map(ToTokens::to_token_stream).unwrap_or_default();
    names.0.retain(|name| !reads(&guard, &name.to_string()));
    names.0
}

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
