//! The test kit: jobs in memory, on a clock that the test moves.

mod assertions;
mod attempts;
mod intervals;
mod schedules;
mod time;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;

/// What the jobs of a test did, in order.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn push(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The text of the panic of a function.
fn text_of(panics: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
    panic.downcast_ref::<String>().cloned().unwrap()
}

/// The text of the panic with which a future ends.
async fn panic_of<T>(future: impl Future<Output = T>) -> String {
    let Err(panic) = AssertUnwindSafe(future).catch_unwind().await else {
        panic!("it did not panic");
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}
