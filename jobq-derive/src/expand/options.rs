//! The options of a job to code.

use jobq_names::period;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};

use super::private;
use crate::attr::{Period, Wait};
use crate::model::Policy;

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
        call("on", on),
        call("unchecked", options.unchecked.then(TokenStream::new)),
        call("plain", (*plain && !options.unchecked).then(TokenStream::new)),
    ];
    quote!(#private::JobOptions::new() #(#calls)*)
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
