//! Which of the user's attributes the generated items have too.

use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, MetaList, Token};

/// Those for the payload type: what documents it and what it depends on.
pub(crate) fn for_type(attributes: &[Attribute]) -> Vec<Attribute> {
    copy(attributes, &["cfg", "allow", "deprecated", "doc"])
}

/// Those for an impl.
pub(crate) fn for_impl(attributes: &[Attribute]) -> Vec<Attribute> {
    let mut copies = copy(attributes, &["cfg", "allow"]);
    if attributes.iter().any(|attribute| attribute.path().is_ident("deprecated")) {
        // Whoever uses the job is warned; the code that makes it work must name it.
        copies.push(syn::parse_quote!(#[allow(deprecated)]));
    }
    copies
}

/// Those for a field. Its argument keeps them.
pub(crate) fn for_field(attributes: &[Attribute]) -> Vec<Attribute> {
    copy(attributes, &["allow"])
}

fn copy(attributes: &[Attribute], names: &[&str]) -> Vec<Attribute> {
    let copied = |attribute: &Attribute| {
        let meta = select(&attribute.meta, names)?;
        Some(Attribute { meta, ..attribute.clone() })
    };
    attributes.iter().filter_map(copied).collect()
}

/// What is left of the attribute when only these names are taken.
fn select(meta: &Meta, names: &[&str]) -> Option<Meta> {
    let Meta::List(list) = meta else {
        return names.iter().any(|name| is(meta, name)).then(|| meta.clone());
    };
    if !list.path.is_ident("cfg_attr") {
        return names.iter().any(|name| is(meta, name)).then(|| meta.clone());
    }
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut parts = parts.iter();
    let condition = parts.next()?;
    let kept: Vec<Meta> = parts.filter_map(|part| select(part, names)).collect();
    (!kept.is_empty())
        .then(|| Meta::List(MetaList { tokens: quote!(#condition, #(#kept),*), ..list.clone() }))
}

fn is(meta: &Meta, name: &str) -> bool {
    meta.path().is_ident(name)
}
