//! The user's code runs behind these, and what is the user's is dropped there: what panics ends
//! here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Runs it, and gives its panic.
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(run))
}

/// Drops a value whose `Drop` may panic, as that of what was given to `panic_any` may.
pub(crate) fn dispose<T>(value: T) {
    if let Err(panic) = guarded(|| drop(value)) {
        // Its own `Drop` may panic as well, and so on.
        std::mem::forget(panic);
    }
}

/// What a panic says.
pub(crate) fn text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"));
    dispose(panic);
    text
}

/// A value of the user's that is dropped behind a guard, wherever that happens.
pub(crate) struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn get(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }

    /// The value, for what runs behind a guard.
    pub(crate) fn into_inner(mut self) -> T {
        self.0.take().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            dispose(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics with itself when it is dropped, so many times.
    struct Loud(u32);

    impl Drop for Loud {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Loud(self.0 - 1));
            }
        }
    }

    #[test]
    fn no_drop_of_the_users_gets_out() {
        for times in 0..4 {
            dispose(Loud(times));
            drop(Guarded::new(Loud(times)));
            let panic = guarded(|| std::panic::panic_any(Loud(times))).unwrap_err();
            assert_eq!(text(panic), "it panicked");
        }
    }

    #[test]
    fn a_panic_says_its_text() {
        let table: [(fn(), &str); 3] = [
            (|| panic!("as text"), "it panicked: as text"),
            (|| panic!("{} text", "made"), "it panicked: made text"),
            (|| std::panic::panic_any(7), "it panicked"),
        ];
        for (run, expected) in table {
            assert_eq!(text(guarded(run).unwrap_err()), expected);
        }
        assert_eq!(guarded(|| 7).ok(), Some(7));
    }
}
