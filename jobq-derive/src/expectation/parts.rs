//! A pattern to its parts, which are matched one by one so that a failure names those that differ.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::token::Brace;
use syn::{FieldPat, Member, Pat, PatRest, PatStruct, PatTupleStruct, PatWild, Path, QSelf, Token};

use super::source;

/// A part of a pattern.
pub(super) struct Part {
    /// The call that makes its `Difference`.
    pub(super) difference: TokenStream,
    /// The pattern with this part alone.
    pub(super) pattern: Pat,
}

/// The pattern that a payload is matched with: `Cleanup` is `Cleanup {}`, which is an error where no
/// such type is, and never a new name.
pub(super) fn whole(pattern: &Pat) -> Pat {
    match pattern {
        Pat::Path(path) => bare(path.qself.as_ref(), &path.path, None),
        Pat::Ident(name) => bare(None, &name.ident.clone().into(), None),
        _ => pattern.clone(),
    }
}

/// The parts of a whole pattern: the variant, then the fields.
pub(super) fn parts(whole: &Pat) -> Vec<Part> {
    match whole {
        Pat::Struct(pattern) => std::iter::once(variant(pattern.qself.as_ref(), &pattern.path))
            .chain(fields(pattern))
            .collect(),
        Pat::TupleStruct(pattern) => {
            std::iter::once(variant(pattern.qself.as_ref(), &pattern.path))
                .chain(elements(pattern))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn variant(qself: Option<&QSelf>, path: &Path) -> Part {
    let text = source::text(path);
    let pattern = bare(qself, path, Some(rest(path.span())));
    Part { difference: quote!(variant(#text)), pattern }
}

fn fields(whole: &PatStruct) -> impl Iterator<Item = Part> {
    let ignored = |field: &FieldPat| FieldPat {
        attrs: field.attrs.clone(),
        member: field.member.clone(),
        colon_token: Some(Token![:](field.span())),
        pat: Box::new(ignore(&field.pat)),
    };
    let fields = whole.fields.iter().enumerate();
    fields.filter(|(_, field)| !is_ignored(&field.pat)).map(move |(index, field)| {
        // All fields are named, so that the compiler's errors about their names are the same for each
        // part, of which it then shows one.
        let mut fields: Punctuated<FieldPat, Token![,]> =
            whole.fields.iter().map(ignored).collect();
        fields[index] = field.clone();
        let rest = Some(rest(field.span()));
        let name = match &field.member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let expected = source::text(&field.pat);
        let pattern = Pat::Struct(PatStruct { fields, rest, ..whole.clone() });
        Part { difference: quote!(named(#name, #expected)), pattern }
    })
}

fn elements(whole: &PatTupleStruct) -> impl Iterator<Item = Part> {
    let count = whole.elems.len();
    let all_rest = whole.elems.iter().position(|element| matches!(element, Pat::Rest(_)));
    let elements = whole.elems.iter().enumerate();
    elements.filter(|(_, element)| !is_ignored(element)).map(move |(index, element)| {
        let expected = source::text(element);
        let from_end = count - index;
        let rest = Pat::Rest(rest(element.span()));
        let before = whole.elems.iter().take(index).map(ignore);
        let after = whole.elems.iter().skip(index + 1).map(ignore);
        let element = std::iter::once(element.clone());
        let (difference, elems) = match all_rest {
            Some(all_rest) if index > all_rest => {
                let elems = std::iter::once(rest).chain(element).chain(after).collect();
                (quote!(from_end(#from_end, #expected)), elems)
            }
            _ => {
                let elems = before.chain(element).chain(std::iter::once(rest)).collect();
                match all_rest {
                    None if count == 1 => (quote!(only(#expected)), elems),
                    _ => (quote!(element(#index, #expected)), elems),
                }
            }
        };
        let pattern = Pat::TupleStruct(PatTupleStruct { elems, ..whole.clone() });
        Part { difference, pattern }
    })
}

/// The pattern without fields.
fn bare(qself: Option<&QSelf>, path: &Path, rest: Option<PatRest>) -> Pat {
    Pat::Struct(PatStruct {
        attrs: Vec::new(),
        qself: qself.cloned(),
        path: path.clone(),
        brace_token: Brace(path.segments.last().map_or_else(Span::call_site, Spanned::span)),
        fields: Punctuated::new(),
        rest,
    })
}

fn rest(span: Span) -> PatRest {
    PatRest { attrs: Vec::new(), dot2_token: Token![..](span) }
}

fn is_ignored(pattern: &Pat) -> bool {
    matches!(pattern, Pat::Wild(_) | Pat::Rest(_))
}

fn ignore(pattern: &Pat) -> Pat {
    Pat::Wild(PatWild { attrs: Vec::new(), underscore_token: Token![_](pattern.span()) })
}
