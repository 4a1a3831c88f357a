//! What code with mistakes expands to beside their errors: the user's own item and as
//! much of what the macro would have made that its uses are no errors too.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::collections::HashSet;
use syn::{FnArg, Generics, Ident, Type};

use crate::expand;
use crate::model::{EventType, FunctionJob, StructJob};
use crate::valid::{self, Found};
use crate::words;

pub(crate) fn function(mut job: FunctionJob) -> TokenStream {
    job.function.attributes.retain(|attribute| !valid::is_job(attribute));
    // Beside ours the compiler would have an error of its own for it.
    job.function.signature.variadic = None;
    // The payload of a subscriber has one field, and here it may have none or more.
    job.policy.options.on = None;
    // And for a `State(db)`.
    let named = job.arguments.all.iter().map(|argument| argument.name_in_state().cloned());
    let typed = job.function.signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    for (typed, name) in typed.zip(named) {
        if let Some(name) = name {
            *typed.pat = syn::parse_quote!(#name);
        }
    }
    let generics = job.function.signature.generics.clone();
    let Some(payload) = payload_name(&job) else {
        return job.function.to_token_stream();
    };
    let mut seen = HashSet::new();
    job.arguments
        .all
        .retain(|argument| argument.name().is_none_or(|name| seen.insert(name.clone())));
    for argument in &mut job.arguments.all {
        let nothing = is_open(&argument.owned, &generics)
            || matches!(argument.ty, Type::Reference(_)) && argument.owned_ends_in("Client");
        argument.ty = if nothing { syn::parse_quote!(()) } else { argument.owned.clone() };
    }
    let function = &job.function;
    let private = expand::private(&job.policy.jobq);
    let declared = expand::payload(&job, &payload);
    let attributes = &job.impl_attributes;
    let options = quote!(#private::JobOptions::new());
    let job_impl = expand::job_impl(&job.policy, attributes, &payload, &options);
    quote! {
        #function
        #declared
        #job_impl
        #[automatically_derived]
        #(#attributes)*
        impl #private::Run for #payload {
            const BLOCKS: bool = true;

            fn requires(_: &mut #private::Requires) {}

            fn call(self, _: &#private::Attempt) -> #private::core::result::Result<#private::Call, #private::BoxError> {
                #private::core::result::Result::Ok(#private::Call::blocking(|| {
                    #private::core::result::Result::Ok::<(), #private::core::fmt::Error>(())
                }))
            }
        }
    }
}

/// The name of the payload type, if there can be one beside the function.
fn payload_name(job: &FunctionJob) -> Option<Ident> {
    // In an `impl`, no type can be declared.
    let in_impl =
        job.arguments.receiver.is_some() || valid::self_type(&job.function.signature).is_some();
    let payload = job.payload.clone().filter(|_| !in_impl)?;
    let taken = job.arguments.all.iter().any(|argument| argument.is_called(&payload));
    (!taken).then_some(payload)
}

/// Whether the compiler itself is certain to refuse the function. Then no word of ours
/// is needed, but code made of it would lead to further errors.
pub(crate) fn is_needed_anyway(job: &FunctionJob) -> bool {
    let arguments = &job.arguments.all;
    let repeated = arguments.iter().enumerate().any(|(index, argument)| {
        let name = argument.name();
        name.is_some() && arguments[..index].iter().any(|before| before.name() == name)
    });
    repeated || arguments.iter().any(|argument| is_inferred(&argument.ty))
}

fn is_inferred(ty: &Type) -> bool {
    words::has(ty.to_token_stream(), &|word| word == "_")
}

pub(crate) fn structure(job: &StructJob) -> TokenStream {
    let private = expand::private(&job.policy.jobq);
    let ident = &job.input.ident;
    let (impl_generics, type_generics, clause) = job.input.generics.split_for_impl();
    let bounds = clause.iter().flat_map(|clause| &clause.predicates);
    let name = &job.policy.name;
    quote! {
        #[automatically_derived]
        impl #impl_generics #private::Job for #ident #type_generics
        where
            #(#bounds,)*
            for<'__jobq> Self: #private::serde::Serialize
                + #private::serde::de::DeserializeOwned
                + #private::core::marker::Send
                + #private::core::marker::Sync
                + 'static,
        {
            const NAME: &'static #private::core::primitive::str = #name;
        }
    }
}

pub(crate) fn event(event: &EventType) -> TokenStream {
    let private = expand::private(&event.jobq);
    let bound = quote!(for<'__jobq> Self: #private::serde::Serialize);
    expand::event_impl(event, "", bound)
}

/// Whether a field could not have this type.
fn is_open(ty: &Type, generics: &Generics) -> bool {
    let is_param = |word: &Ident| {
        generics.type_params().any(|param| param.ident == *word)
            || generics.const_params().any(|param| param.ident == *word)
    };
    Found::in_type(ty).any()
        || valid::given_by_the_pool(ty).is_some()
        || is_inferred(ty)
        || words::has(ty.to_token_stream(), &is_param)
}
