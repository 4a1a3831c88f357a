//! Guards that run user code and drop user values, and catch panics; locks that outlast panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Runs a function, and returns its panic as the error.
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(run))
}

/// Locks a mutex, also after a panic of a thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops a value whose `Drop` may panic, such as the payload of a panic.
pub(crate) fn dispose<T>(value: T) {
    if let Err(panic) = guarded(|| drop(value)) {
        // Dropping the panic may panic again.
        std::mem::forget(panic);
    }
}

/// The text of a panic.
pub(crate) fn text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"));
    dispose(panic);
    text
}

/// A user value whose `Drop` always runs guarded.
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

    /// The value, to be used inside a guard.
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

    /// Panics with itself when it is dropped, this many times.
    struct Loud(u32);

    impl Drop for Loud {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Loud(self.0 - 1));
            }
        }
    }

    #[test]
    fn panics_of_user_drops_are_caught() {
        for times in 0..4 {
            dispose(Loud(times));
            drop(Guarded::new(Loud(times)));
            let panic = guarded(|| std::panic::panic_any(Loud(times))).unwrap_err();
            assert_eq!(text(panic), "it panicked");
        }
    }

    #[test]
    fn a_panic_has_its_text() {
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
