//! The options of a job to code.

use jobq_names::period;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::LitStr;

use super::private;
use crate::attr::{Period, PeriodicOptions, Texts, Wait};
use crate::model::Policy;
use crate::words;

pub(super) fn options(Policy { options, plain, jobq, .. }: &Policy) -> TokenStream {
    let private = &private(jobq);
    let duration = |period: &Period| duration(period, private);
    let on = options.on.as_ref().map(|patterns| {
        let patterns = &patterns.all;
        quote!(&[#(#patterns),*])
    });
    let calls = [
        call("queue", options.queue.as_ref()),
        call("retries", options.retries.as_ref().map(|retries| retries.value)),
        call("delay", options.delay.as_ref().map(|wait| delay(wait, private))),
        call("timeout", options.timeout.as_ref().map(duration)),
        call("concurrency", options.concurrency.as_ref().map(|count| count.value)),
        call("expires", options.expires.as_ref().map(duration)),
        call(
            "priority",
            options.priority.as_ref().map(|priority| self::priority(priority, private)),
        ),
        call("priorities", options.priorities.as_ref().map(|_| TokenStream::new())),
        call("on", on),
        call("unchecked", options.unchecked.then(TokenStream::new)),
        call("plain", (*plain && !options.unchecked).then(TokenStream::new)),
    ];
    let all = quote!(#private::JobOptions::new() #(#calls)*);
    match periodic(&options.periodic, private) {
        // At the times, where the compiler tells of a missing feature.
        Some((times, span)) => quote_spanned!(span=> #jobq::__periodic!(#all, #times)),
        None => all,
    }
}

/// The times of a periodic job, and their place.
fn periodic(options: &PeriodicOptions, private: &TokenStream) -> Option<(TokenStream, Span)> {
    let (times, span) = match (&options.cron, &options.every) {
        (Some(Texts { all, .. }), _) => {
            (quote!(#private::Periodic::cron(&[#(#all),*])), all.first()?.span())
        }
        (None, Some(every)) => {
            let period = duration(every, private);
            (quote!(#private::Periodic::every(#period)), every.literal.span())
        }
        (None, None) => return None,
    };
    let missed = options.missed.as_ref().map(|missed| {
        let variant = format_ident!("{}", words::camel(&missed.value()));
        quote!(#private::Missed::#variant)
    });
    let calls = [
        call("zone", options.zone.as_ref()),
        call("missed", missed),
        call("jitter", options.jitter.as_ref().map(|jitter| duration(jitter, private))),
    ];
    Some((quote!(#times #(#calls)*), span))
}

fn priority(text: &LitStr, private: &TokenStream) -> TokenStream {
    let variant = format_ident!("{}", words::camel(&text.value()));
    quote!(#private::Priority::#variant)
}

/// The call of a setter, if there is a value.
fn call(setter: &str, value: Option<impl ToTokens>) -> Option<TokenStream> {
    let (setter, value) = (format_ident!("{setter}"), value?);
    Some(quote!(.#setter(#value)))
}

fn delay(wait: &Wait, private: &TokenStream) -> TokenStream {
    let duration = |period: &Period| duration(period, private);
    match wait {
        Wait::Constant(period) => {
            let wait = duration(period);
            quote!(#private::Delay::constant(#wait))
        }
        Wait::List { waits, .. } => {
            let waits = waits.iter().map(duration);
            quote!(#private::Delay::list(const { &[#(#waits),*] }))
        }
        Wait::Exponential(growth) => {
            let first = duration(&growth.first);
            let calls = [
                call("max", growth.max.as_ref().map(duration)),
                call("factor", growth.factor.as_ref().map(|factor| factor.value)),
                call("jitter", growth.jitter.as_ref().map(|jitter| jitter.value)),
            ];
            quote!(#private::Delay::Exponential(#private::Exponential::new(#first) #(#calls)*))
        }
    }
}

fn duration(period: &Period, private: &TokenStream) -> TokenStream {
    let millis = period::millis(period.value);
    quote!(#private::Duration::from_millis(#millis))
}
