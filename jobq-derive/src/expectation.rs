//! The assertions of the test kit, from tokens to code: [`read`] → [`valid`] → [`expand`].

mod expand;
mod read;
mod source;
mod texts;
mod valid;

use proc_macro2::TokenTree;
use syn::{Expr, Ident, LitStr, Pat};

use crate::attr::Period;
pub(crate) use expand::expand;
pub(crate) use read::read;
pub(crate) use valid::check;

/// The arguments of an assertion.
pub(crate) struct Expectation {
    assertion: Assertion,
    jobs: Expr,
    count: Option<usize>,
    sought: Sought,
    within: Option<Period>,
}

/// Which jobs or events.
enum Sought {
    Topic(LitStr),
    Payload { pattern: Box<Pat>, guard: Option<Box<Expr>> },
}

/// The macro that the user called.
struct Assertion {
    /// The path to `jobq`.
    jobq: TokenTree,
    name: Ident,
}

impl Assertion {
    fn is_of_jobs(&self) -> bool {
        self.name.to_string().ends_with("enqueued")
    }

    fn is_refutation(&self) -> bool {
        self.name.to_string().starts_with("refute")
    }

    /// A call for messages, with this between the jobs and the pattern.
    fn example(&self, count: &str) -> String {
        let name = &self.name;
        let pattern = if self.is_of_jobs() { "SendWelcome" } else { "UserCreated" };
        format!("`{name}!(jobs, {count}{pattern} {{ user_id: 7, .. }})`")
    }
}
