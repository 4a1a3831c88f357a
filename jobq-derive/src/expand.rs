//! The model to code. Nothing is decided here.
//!
//! Generated code names what it needs by its full path below `jobq::__private`, and
//! its own variables are `mixed_site`: whatever the user calls things, nothing clashes.

mod options;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Path, ReturnType, Signature, Visibility};

use self::options::options;
use crate::copies;
use crate::model::{EventType, FunctionJob, Policy, StructJob};
use crate::signature::{Argument, Role};
use crate::words;

pub(crate) fn function(job: &FunctionJob) -> TokenStream {
    let function = &job.function;
    let Some(name) = &job.payload else {
        return function.to_token_stream();
    };
    let payload = payload(job, name);
    let options = options(&job.policy);
    let job_impl = job_impl(&job.policy, &job.impl_attributes, name, &options);
    let run_impl = run_impl(job, name);
    quote! {
        // What these lints advise against is what a job function must have; `async` says
        // where it runs.
        #[allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, clippy::unused_async)]
        #function
        #payload
        #job_impl
        #run_impl
    }
}

pub(crate) fn structure(job: &StructJob) -> TokenStream {
    let options = options(&job.policy);
    job_impl(&job.policy, &job.impl_attributes, &job.input.ident, &options)
}

pub(crate) fn event(event: &EventType) -> TokenStream {
    let private = private(&event.jobq);
    // What a generic type is made of decides whether it can be serialized.
    let generic = event.input.generics.type_params().next();
    let bound = generic.map(|_| quote!(Self: #private::serde::Serialize));
    event_impl(event, &event.topic, bound)
}

pub(crate) fn event_impl(
    event: &EventType,
    topic: impl ToTokens,
    bound: impl ToTokens,
) -> TokenStream {
    let private = private(&event.jobq);
    let (attributes, ident) = (&event.impl_attributes, &event.input.ident);
    let (impl_generics, type_generics, clause) = event.input.generics.split_for_impl();
    let bounds = clause.iter().flat_map(|clause| &clause.predicates);
    quote! {
        #[automatically_derived]
        #(#attributes)*
        impl #impl_generics #private::Event for #ident #type_generics
        where
            #(#bounds,)*
            #bound
        {
            const TOPIC: &'static #private::core::primitive::str = #topic;
        }
    }
}

pub(crate) fn private(jobq: &Path) -> TokenStream {
    quote!(#jobq::__private)
}

/// A field of the payload type.
struct Field<'m> {
    argument: &'m Argument,
    name: &'m Ident,
}

fn fields(job: &FunctionJob) -> Vec<Field<'_>> {
    let named = |argument| Argument::name(argument).map(|name| Field { argument, name });
    job.fields().filter_map(named).collect()
}

/// The payload type with everything but its `Job` and `Run`.
pub(crate) fn payload(job: &FunctionJob, name: &Ident) -> TokenStream {
    let private = private(&job.policy.jobq);
    let serde = words::code(quote!(#private::serde));
    let (visibility, attributes) = (&job.function.visibility, &job.type_attributes);
    let documented = attributes.iter().any(|attribute| attribute.path().is_ident("doc"));
    let fallback = format!("The payload of the job `{}`.", job.policy.name.value());
    let documentation = (!documented).then(|| quote!(#[doc = #fallback]));
    // Some of serde's errors about a field stand where the derive does.
    let place = Span::call_site().located_at(job.function.signature.paren_token.span.join());
    let serialize = placed(quote!(#private::serde::Serialize), place, place);
    let deserialize = placed(quote!(#private::serde::Deserialize), place, place);
    // The JSON of a subscriber's payload is that of its one field, the event.
    let transparent = job.policy.subscribes().then(|| quote!(, transparent));
    // The compiler shows the function where the type is private.
    let keyword =
        syn::Token![struct](Span::call_site().located_at(job.function.signature.fn_token.span));
    let fields = fields(job);
    let declared = fields.iter().map(|field| declare(field, visibility));
    let travel = fields.iter().map(|field| travels(field, &private));
    let clone_and_debug = clone_and_debug(job, name, &fields);
    quote! {
        #(#travel)*
        #documentation
        #(#attributes)*
        #[derive(#serialize, #deserialize)]
        #[serde(crate = #serde #transparent)]
        // The function's arguments are not to be judged as the fields of a struct.
        #[allow(clippy::struct_excessive_bools, clippy::struct_field_names)]
        #visibility #keyword #name {
            #(#declared,)*
        }
        #clone_and_debug
    }
}

/// The first error about a type that cannot travel, which says more than serde's do.
fn travels(field: &Field<'_>, private: &TokenStream) -> TokenStream {
    let ty = &field.argument.ty;
    // A payload may be called so, too.
    let is_of_context = ["Client", "Attempt"].iter().any(|name| field.argument.ends_in(name));
    let bound = if is_of_context { quote!(TravelsBesideContext) } else { quote!(Travels) };
    quote_spanned! {ty.span()=>
        const _: fn() = || {
            fn travels<T: #private::#bound>() {}
            travels::<#ty>();
        };
    }
}

/// The field begins at the place of its type, since that is where serde's errors about
/// the type then stand.
fn declare(field: &Field<'_>, visibility: &Visibility) -> TokenStream {
    let Field { argument, name } = field;
    let Argument { docs, serde, ty, .. } = argument;
    let place = Span::call_site().located_at(ty.span());
    let fallback = format!("The argument `{}`.", name.unraw());
    let documentation = docs.is_empty().then(|| quote_spanned!(place=> #[doc = #fallback]));
    let docs =
        docs.iter().map(|doc| Attribute { pound_token: syn::Token![#](place), ..doc.clone() });
    let lints = copies::for_field(&argument.others);
    quote! {
        #documentation
        #(#docs)*
        #(#serde)*
        #(#lints)*
        #visibility #name: #ty
    }
}

/// `for<'a>` makes the compiler accept a bound that does not hold, and the impl then
/// does not exist. A plain `Type: Clone` would be an error.
fn clone_and_debug(job: &FunctionJob, name: &Ident, fields: &[Field<'_>]) -> TokenStream {
    let private = private(&job.policy.jobq);
    let attributes = &job.impl_attributes;
    let types: Vec<_> = fields.iter().map(|field| &field.argument.ty).collect();
    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
    let texts = names.iter().map(|name| name.unraw().to_string());
    let text = name.unraw().to_string();
    let clone = quote!(#private::core::clone::Clone);
    let fmt = quote!(#private::core::fmt);
    let formatter = own("__formatter");
    quote! {
        #[automatically_derived]
        #(#attributes)*
        impl #clone for #name
        where
            #(for<'__jobq> #types: #clone,)*
        {
            fn clone(&self) -> Self {
                Self { #(#names: #clone::clone(&self.#names),)* }
            }
        }

        #[automatically_derived]
        #(#attributes)*
        impl #fmt::Debug for #name
        where
            #(for<'__jobq> #types: #fmt::Debug,)*
        {
            fn fmt(&self, #formatter: &mut #fmt::Formatter<'_>) -> #fmt::Result {
                #fmt::Formatter::debug_struct(#formatter, #text)
                    #(.field(#texts, &self.#names))*
                    .finish()
            }
        }
    }
}

pub(crate) fn job_impl(
    policy: &Policy,
    attributes: &[Attribute],
    payload: &Ident,
    options: &TokenStream,
) -> TokenStream {
    let private = private(&policy.jobq);
    let name = &policy.name;
    quote! {
        #[automatically_derived]
        #(#attributes)*
        impl #private::Job for #payload {
            const NAME: &'static #private::core::primitive::str = #name;
            const OPTIONS: #private::JobOptions = #options;
        }
    }
}

fn run_impl(job: &FunctionJob, payload: &Ident) -> TokenStream {
    let private = private(&job.policy.jobq);
    let attributes = &job.impl_attributes;
    let (requires, attempt) = (own("__requires"), own("__attempt"));
    let variables: Vec<Ident> =
        (0..job.arguments.all.len()).map(|index| own(&format!("__argument_{index}"))).collect();
    let arguments = || job.arguments.all.iter().zip(&variables);
    let read = arguments().filter_map(|(argument, variable)| {
        let name = argument.name().filter(|_| argument.role == Role::Payload)?;
        Some(quote!(#name: #variable))
    });
    let context = || arguments().filter(|(argument, _)| argument.role == Role::Context);
    let require = context().map(
        |(Argument { ty, .. }, _)| quote!(<#ty as #private::FromAttempt>::requires(#requires);),
    );
    let take = context().map(|(Argument { ty, .. }, variable)| {
        quote!(let #variable = <#ty as #private::FromAttempt>::argument(#attempt)?;)
    });
    let call = call(job, &variables);
    let is_plain = job.function.signature.asyncness.is_none();
    let blocks = is_plain.then(|| {
        quote!(
            const BLOCKS: bool = true;
        )
    });
    quote! {
        #[automatically_derived]
        #(#attributes)*
        impl #private::Run for #payload
        where
            // A payload that cannot be a `Job` is an error of that impl alone.
            for<'__jobq> Self: #private::Job,
        {
            #blocks

            fn requires(#requires: &mut #private::Requires) {
                #(#require)*
            }

            fn call(self, #attempt: &#private::Attempt) -> #private::core::result::Result<#private::Call, #private::BoxError> {
                let Self { #(#read,)* } = self;
                #(#take)*
                #private::core::result::Result::Ok(#call)
            }
        }
    }
}

/// The call of the user's function. It has the place of the return type, so that the
/// compiler's error for one that is no `Result` stands there.
fn call(job: &FunctionJob, variables: &[Ident]) -> TokenStream {
    let private = private(&job.policy.jobq);
    let Signature { ident, asyncness, output, .. } = &job.function.signature;
    let (start, end) = ends(output);
    let call = placed(quote!(#ident (#(#variables),*)), start, end);
    let (how, call) = match asyncness {
        Some(_) => (quote!(future), call),
        None => (quote!(blocking), placed(quote!(move || #call), start, end)),
    };
    placed(quote!(#private::Call::#how(#call)), start, end)
}

/// The same code at another place. What is inside its brackets stays where it is.
fn placed(tokens: TokenStream, start: Span, end: Span) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let last = tokens.len().saturating_sub(1);
    for (index, token) in tokens.iter_mut().enumerate() {
        token.set_span(if index == last { end } else { start });
    }
    tokens.into_iter().collect()
}

/// Where the return type starts and ends, as places only.
fn ends(output: &ReturnType) -> (Span, Span) {
    let here = Span::call_site();
    let tokens = match output {
        ReturnType::Default => TokenStream::new(),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    let mut spans = tokens.into_iter().map(|token| here.located_at(token.span()));
    let start = spans.next().unwrap_or(here);
    (start, spans.last().unwrap_or(start))
}

/// A variable of generated code.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Options, Place};
    use crate::mistakes::Mistakes;

    #[test]
    fn code_for_a_renamed_crate_never_names_jobq() {
        let mut mistakes = Mistakes::default();
        let keys = r#"crate = "my_queue", delay = exponential("1s", max = "1m"), timeout = "1s""#;
        let options = Options::read(keys.parse().unwrap(), Place::Function, &mut mistakes);
        let function = "async fn save(a: u8, b: State<u8>) -> Result<(), String> { todo!() }";
        let function = syn::parse_str(function).unwrap();
        let job = FunctionJob::new(options, function, &mut mistakes);
        assert!(mistakes.none());
        let code = super::function(&job).to_string().replace("'__jobq", "");
        assert!(code.contains("my_queue :: __private"), "{code}");
        assert!(!code.contains("jobq"), "{code}");
    }
}
