//! A function to its parts.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, Meta, Pat, PatTupleStruct, PathArguments,
    Receiver, Result, Signature, Token, Type, Visibility,
};

use crate::mistakes::Mistakes;
use crate::words;

/// The user's function. Its body stays as the tokens that it is: nothing here depends
/// on it, and half-written code in an editor keeps its payload type.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let word = input.fork().parse().ok();
        let signature = input.parse().map_err(|_| no_function(&attributes, word))?;
        match block(input.parse()?) {
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                Ok(Self { attributes, visibility, signature, body })
            }
            TokenTree::Punct(end) if end.as_char() == ';' => Err(Error::new_spanned(
                end,
                "`#[job]` goes on a free function with a body, and a method of a trait is none: \
                 write the function outside of the trait, and let it take what implements the \
                 trait as a `State<Arc<dyn ..>>`",
            )),
            end => Err(Error::new_spanned(
                end,
                "`#[job]` goes on a function with a body: add one in `{ ... }`",
            )),
        }
    }
}

/// The block itself, where a `macro_rules!` passed it as `$body:block`.
fn block(token: TokenTree) -> TokenTree {
    let TokenTree::Group(group) = &token else { return token };
    let mut inner = group.stream().into_iter();
    match (group.delimiter(), inner.next(), inner.next()) {
        (Delimiter::None, Some(only), None) => block(only),
        _ => token,
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.attributes.iter().map(ToTokens::to_token_stream));
        self.visibility.to_tokens(tokens);
        self.signature.to_tokens(tokens);
        self.body.to_tokens(tokens);
    }
}

/// The error for an item that is no function, at the word that says what it is.
fn no_function(attributes: &[Attribute], word: Option<TokenTree>) -> Error {
    let message = match word.as_ref().map(TokenTree::to_string).as_deref() {
        Some("struct") if attributes.iter().any(derives_job) => {
            "`#[job(...)]` on a struct goes below its `#[derive(Job)]`: move it there"
        }
        Some("struct") => {
            "`#[job]` goes on a function; to make this struct a payload, write `#[derive(Job)]` \
             above it, and the keys below that as `#[job(...)]`"
        }
        _ => "`#[job]` goes on a function: write `#[job] async fn ...`",
    };
    Error::new_spanned(word, message)
}

fn derives_job(attribute: &Attribute) -> bool {
    attribute.path().is_ident("derive")
        && words::has(attribute.to_token_stream(), &|word| word == "Job")
}

/// An argument of the function, without the attributes that are for the macro.
pub(crate) struct Argument {
    pub(crate) pattern: Pat,
    /// The type, as the user wrote it.
    pub(crate) ty: Type,
    /// What it would have to be if it borrows: the same without references.
    pub(crate) owned: Type,
    pub(crate) role: Role,
    /// The documentation, for the field.
    pub(crate) docs: Vec<Attribute>,
    /// `#[serde(..)]`, for the field.
    pub(crate) serde: Vec<Attribute>,
    /// Attributes that stay on the function.
    pub(crate) others: Vec<Attribute>,
}

/// Where the value of an argument comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// From the client that enqueued.
    Payload,
    /// From the pool that runs the job.
    Context,
}

impl Argument {
    /// The name, if it has a plain one.
    pub(crate) fn name(&self) -> Option<&Ident> {
        match &self.pattern {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Some(&name.ident),
            _ => None,
        }
    }

    /// The name in `State(name)`.
    pub(crate) fn name_in_state(&self) -> Option<&Ident> {
        match (self.state(), &self.pattern) {
            (Some(_), Pat::TupleStruct(PatTupleStruct { elems, .. })) => match elems.first() {
                Some(Pat::Ident(name)) => Some(&name.ident),
                _ => None,
            },
            _ => None,
        }
    }

    /// The type in `State<..>`, if it is one.
    pub(crate) fn state(&self) -> Option<&Type> {
        let Type::Path(path) = &self.ty else { return None };
        let last = path.path.segments.last().filter(|last| last.ident == "State")?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
        match arguments.args.first() {
            Some(GenericArgument::Type(state)) => Some(state),
            _ => None,
        }
    }

    /// Whether the type is called so, with a path or without.
    pub(crate) fn ends_in(&self, name: &str) -> bool {
        ends_in(&self.ty, name)
    }

    /// Whether the type without references is called so.
    pub(crate) fn owned_ends_in(&self, name: &str) -> bool {
        ends_in(&self.owned, name)
    }

    /// Whether the type is called just so, without a path.
    pub(crate) fn is_called(&self, name: &Ident) -> bool {
        matches!(&self.owned, Type::Path(path)
            if path.path.segments.len() == 1 && path.path.segments[0].ident == *name)
    }
}

fn ends_in(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path)
        if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// The arguments of a function.
pub(crate) struct Arguments {
    pub(crate) receiver: Option<Receiver>,
    pub(crate) all: Vec<Argument>,
}

impl Arguments {
    /// Takes the macro's attributes off the function's arguments and reads them.
    pub(crate) fn read(signature: &mut Signature, mistakes: &mut Mistakes) -> Self {
        let mut arguments = Self { receiver: None, all: Vec::new() };
        for argument in &mut signature.inputs {
            match argument {
                FnArg::Receiver(receiver) => arguments.receiver = Some(receiver.clone()),
                FnArg::Typed(typed) => arguments.all.push(read(typed, mistakes)),
            }
        }
        arguments
    }
}

fn read(typed: &mut syn::PatType, mistakes: &mut Mistakes) -> Argument {
    let mut owned = (*typed.ty).clone();
    Owned.visit_type_mut(&mut owned);
    let mut argument = Argument {
        pattern: (*typed.pat).clone(),
        ty: (*typed.ty).clone(),
        role: role_of(&owned),
        owned,
        docs: Vec::new(),
        serde: Vec::new(),
        others: Vec::new(),
    };
    let mut said: Option<Role> = None;
    for attribute in std::mem::take(&mut typed.attrs) {
        let word = attribute.path().to_token_stream().to_string();
        let role = match &*word {
            "payload" => Role::Payload,
            "context" => Role::Context,
            _ => {
                match &*word {
                    "doc" => argument.docs.push(attribute),
                    "serde" => argument.serde.push(attribute),
                    _ => argument.others.push(attribute),
                }
                continue;
            }
        };
        if !matches!(attribute.meta, Meta::Path(_)) {
            mistakes
                .at(&attribute.meta, format!("`#[{word}]` takes no arguments: write `#[{word}]`"));
        }
        match said {
            Some(before) if before == role => {
                mistakes.at(&attribute, format!("`#[{word}]` is given twice; keep one"));
            }
            Some(_) => mistakes
                .at(&attribute, "an argument is either `#[payload]` or `#[context]`; keep one"),
            None => argument.role = role,
        }
        said = Some(role);
    }
    typed.attrs.clone_from(&argument.others);
    argument
}

/// The role that an argument has by the last word of its type's path.
fn role_of(ty: &Type) -> Role {
    match ty {
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if last.ident == "State" || last.ident == "JobContext" => Role::Context,
            _ => Role::Payload,
        },
        Type::Group(group) => role_of(&group.elem),
        Type::Paren(paren) => role_of(&paren.elem),
        _ => Role::Payload,
    }
}

/// Makes every reference the type that owns what it refers to.
struct Owned;

impl VisitMut for Owned {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::Reference(reference) = ty {
            let target = (*reference.elem).clone();
            *ty = match &target {
                Type::Slice(slice) => {
                    let element = &slice.elem;
                    syn::parse_quote!(Vec<#element>)
                }
                Type::Path(path) => match owner_of(path) {
                    Some(owner) => Type::Path(owner),
                    None => target,
                },
                _ => target,
            };
        }
        visit_mut::visit_type_mut(self, ty);
    }

    fn visit_type_path_mut(&mut self, path: &mut syn::TypePath) {
        // `Cow<'a, str>` is `String` already where it owns its text.
        let target = path.path.segments.last().filter(|last| last.ident == "Cow").and_then(cow);
        if let Some(target) = target {
            let mut ty = Type::Reference(syn::TypeReference {
                attrs: Vec::new(),
                and_token: <Token![&]>::default(),
                lifetime: None,
                mutability: None,
                elem: Box::new(target),
            });
            self.visit_type_mut(&mut ty);
            if let Type::Path(owner) = ty {
                *path = owner;
                return;
            }
        }
        visit_mut::visit_type_path_mut(self, path);
    }
}

/// What a `Cow` with a lifetime other than `'static` borrows.
fn cow(segment: &syn::PathSegment) -> Option<Type> {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    let mut borrows = true;
    let mut target = None;
    for argument in &arguments.args {
        match argument {
            syn::GenericArgument::Lifetime(lifetime) => borrows = lifetime.ident != "static",
            syn::GenericArgument::Type(ty) => target = Some(ty.clone()),
            _ => {}
        }
    }
    target.filter(|_| borrows)
}

/// The owned form of a borrowed type of the standard library.
fn owner_of(path: &syn::TypePath) -> Option<syn::TypePath> {
    let last = path.path.segments.last()?;
    let name = match last.ident.to_string().as_str() {
        "str" => "String",
        "Path" => "PathBuf",
        "OsStr" => "OsString",
        "CStr" => "CString",
        _ => return None,
    };
    let mut owner = path.clone();
    owner.path.segments.last_mut()?.ident = Ident::new(name, last.ident.span());
    Some(owner)
}
