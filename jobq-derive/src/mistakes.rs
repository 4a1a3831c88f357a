use proc_macro2::TokenStream;
use quote::ToTokens;
use std::fmt::Display;
use syn::LitStr;

/// What is wrong with the user's code: all of it, so that nobody compiles once per
/// mistake.
#[derive(Default)]
pub(crate) struct Mistakes {
    all: Option<syn::Error>,
}

impl Mistakes {
    /// Notes a mistake at these tokens of the user.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Notes a mistake at each of these.
    pub(crate) fn at_each(
        &mut self,
        all: impl IntoIterator<Item = impl ToTokens>,
        message: impl Display,
    ) {
        all.into_iter().for_each(|tokens| self.at(tokens, &message));
    }

    /// Notes the problem of a text, if it has one.
    pub(crate) fn check<P: Display>(
        &mut self,
        text: &LitStr,
        check: impl FnOnce(&str) -> Result<(), P>,
    ) {
        if let Err(problem) = check(&text.value()) {
            self.at(text, problem);
        }
    }

    pub(crate) fn add(&mut self, mistake: syn::Error) {
        match &mut self.all {
            Some(all) => all.combine(mistake),
            None => self.all = Some(mistake),
        }
    }

    /// Takes the value and notes the mistake.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|mistake| self.add(mistake)).ok()
    }

    pub(crate) fn none(&self) -> bool {
        self.all.is_none()
    }

    /// The compiler's errors.
    pub(crate) fn into_errors(self) -> TokenStream {
        self.all.map(|all| all.to_compile_error()).unwrap_or_default()
    }
}
