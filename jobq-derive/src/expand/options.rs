//! The options of a job to code.

use std::time::Duration;

use jobq_names::period;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::private;
use crate::attr::Wait;
use crate::model::Policy;

pub(super) fn options(Policy { options, plain, jobq, .. }: &Policy) -> TokenStream {
    let private = &private(jobq);
    let queue = options.queue.as_ref().map(|queue| quote!(.queue(#queue)));
    let retries = options.retries.as_ref().map(|retries| {
        let retries = Literal::u32_suffixed(retries.value);
        quote!(.retries(#retries))
    });
    let delay = options.delay.as_ref().map(|wait| {
        let delay = delay(wait, private);
        quote!(.delay(#delay))
    });
    let timeout = options.timeout.as_ref().map(|timeout| {
        let timeout = duration(timeout.value, private);
        quote!(.timeout(#timeout))
    });
    let concurrency = options.concurrency.as_ref().map(|concurrency| {
        let concurrency = Literal::u16_suffixed(concurrency.value);
        quote!(.concurrency(#concurrency))
    });
    let expires = options.expires.as_ref().map(|expires| {
        let expires = duration(expires.value, private);
        quote!(.expires(#expires))
    });
    let on = options.on.as_ref().map(|patterns| {
        let patterns = &patterns.all;
        quote!(.on(&[#(#patterns),*]))
    });
    let read_back = match (options.unchecked, plain) {
        (true, _) => Some(quote!(.unchecked())),
        (false, true) => Some(quote!(.plain())),
        (false, false) => None,
    };
    quote! {
        #private::JobOptions::new() #queue #retries #delay #timeout #concurrency #expires #on #read_back
    }
}

fn delay(wait: &Wait, private: &TokenStream) -> TokenStream {
    match wait {
        Wait::Constant(period) => {
            let wait = duration(period.value, private);
            quote!(#private::Delay::constant(#wait))
        }
        Wait::List { waits, .. } => {
            let waits = waits.iter().map(|wait| duration(wait.value, private));
            quote!(#private::Delay::list(const { &[#(#waits),*] }))
        }
        Wait::Exponential(growth) => {
            let first = duration(growth.first.value, private);
            let max = growth.max.as_ref().map(|max| {
                let max = duration(max.value, private);
                quote!(.max(#max))
            });
            let factor = growth.factor.as_ref().map(|factor| {
                let factor = Literal::f64_suffixed(factor.value);
                quote!(.factor(#factor))
            });
            let jitter = growth.jitter.as_ref().map(|jitter| {
                let jitter = Literal::f64_suffixed(jitter.value);
                quote!(.jitter(#jitter))
            });
            quote! {
                #private::Delay::Exponential(
                    #private::Exponential::new(#first) #max #factor #jitter
                )
            }
        }
    }
}

fn duration(period: Duration, private: &TokenStream) -> TokenStream {
    let millis = Literal::u64_suffixed(period::millis(period));
    quote!(#private::Duration::from_millis(#millis))
}
