//! What the user's code means: the one thing that the later stages look at.

use proc_macro2::Span;
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, DeriveInput, Ident, LitStr, Path};

use crate::attr::{EventOptions, Options};
use crate::copies;
use crate::mistakes::Mistakes;
use crate::plain;
use crate::signature::{Argument, Arguments, Function, Role};
use crate::words;

/// The part that a job of a function and a job of a struct share.
pub(crate) struct Policy {
    /// The job's name on the wire.
    pub(crate) name: LitStr,
    pub(crate) options: Options,
    /// Whether the payload has plain fields alone.
    pub(crate) plain: bool,
    /// The path to `jobq`.
    pub(crate) jobq: Path,
}

impl Policy {
    fn new(options: Options, plain: bool, name: &str, span: Span) -> Self {
        let name = options.name.clone().unwrap_or_else(|| LitStr::new(name, span));
        let jobq = jobq(options.path.clone());
        Self { name, options, plain, jobq }
    }

    /// Whether the job's payload is an event.
    pub(crate) fn subscribes(&self) -> bool {
        self.options.on.is_some()
    }
}

/// The path to `jobq`, where the user gives none.
fn jobq(given: Option<Path>) -> Path {
    given.unwrap_or_else(|| syn::parse_quote!(::jobq))
}

/// `#[job]` on a function.
pub(crate) struct FunctionJob {
    pub(crate) policy: Policy,
    pub(crate) function: Function,
    pub(crate) arguments: Arguments,
    /// The payload type, unless no name could be made for it.
    pub(crate) payload: Option<Ident>,
    /// The function's attributes that its payload type has too.
    pub(crate) type_attributes: Vec<Attribute>,
    /// The function's attributes that the impls have too.
    pub(crate) impl_attributes: Vec<Attribute>,
}

impl FunctionJob {
    pub(crate) fn new(options: Options, mut function: Function, mistakes: &mut Mistakes) -> Self {
        let arguments = Arguments::read(&mut function.signature, mistakes);
        let ident = &function.signature.ident;
        let name = ident.unraw().to_string();
        let payload = options.payload.clone().or_else(|| type_name(&name, ident.span()));
        Self {
            payload,
            type_attributes: copies::for_type(&function.attributes),
            impl_attributes: copies::for_impl(&function.attributes),
            policy: Policy::new(options, plain::are(&arguments), &name, ident.span()),
            arguments,
            function,
        }
    }

    /// The arguments that make the payload.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.all.iter().filter(|argument| argument.role == Role::Payload)
    }
}

fn type_name(function: &str, span: Span) -> Option<Ident> {
    let name: Ident = syn::parse_str(&words::camel(function)).ok()?;
    Some(format_ident!("{name}", span = span))
}

/// `#[derive(Job)]` on a struct.
pub(crate) struct StructJob {
    pub(crate) policy: Policy,
    pub(crate) input: DeriveInput,
    pub(crate) impl_attributes: Vec<Attribute>,
}

impl StructJob {
    pub(crate) fn new(options: Options, input: DeriveInput) -> Self {
        let name = words::snake(&input.ident.unraw().to_string());
        Self {
            // Attributes of serde, on the struct or its fields, decide what is written and read.
            policy: Policy::new(options, false, &name, input.ident.span()),
            impl_attributes: copies::for_impl(&input.attrs),
            input,
        }
    }
}

/// `#[derive(Event)]` on a type.
pub(crate) struct EventType {
    /// The topic, if the user names one.
    pub(crate) topic: Option<LitStr>,
    pub(crate) input: DeriveInput,
    pub(crate) impl_attributes: Vec<Attribute>,
    /// The path to `jobq`.
    pub(crate) jobq: Path,
}

impl EventType {
    pub(crate) fn new(options: EventOptions, input: DeriveInput) -> Self {
        Self {
            topic: options.topic,
            impl_attributes: copies::for_impl(&input.attrs),
            jobq: jobq(options.path),
            input,
        }
    }
}
