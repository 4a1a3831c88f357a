use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::guard::Guarded;

/// Argument of a job function: a value shared by all attempts, given to the pool with
/// [`WorkerPool::state`](crate::WorkerPool::state). It derefs to the value; cloning it is cheap.
///
/// To call a job function in a test, build it with [`State(value)`](State()).
///
/// ```
/// use jobq::{State, job};
///
/// struct Mailer {
///     from: String,
/// }
///
/// #[job]
/// async fn send_welcome(user_id: u64, mailer: State<Mailer>) -> Result<(), jobq::BoxError> {
///     println!("to {user_id}, from {}", mailer.from);
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), jobq::BoxError> {
/// send_welcome(7, State(Mailer { from: "us@example.com".into() })).await
/// # }
/// ```
pub struct State<T: ?Sized> {
    value: Arc<T>,
}

/// A [`State`](struct@State) with this value, for tests of job functions.
// A function that looks like the constructor of a tuple struct: the value goes into an `Arc`, so a
// state need not be `Clone`.
#[allow(non_snake_case)]
#[must_use]
pub fn State<T>(value: T) -> State<T> {
    State { value: Arc::new(value) }
}

impl<T: ?Sized> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value) }
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&&self.value).finish()
    }
}

/// The states of a pool, by their type.
#[derive(Default)]
pub(crate) struct States(BTreeMap<TypeId, Guarded<Arc<dyn Any + Send + Sync>>>);

impl States {
    /// Adds a state; `false` if there is one of its type already.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Guarded::new(Arc::new(value))).is_none()
    }

    pub(crate) fn contains(&self, state: TypeId) -> bool {
        self.0.contains_key(&state)
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        let value = Arc::clone(self.0.get(&TypeId::of::<T>())?.get());
        Some(State { value: value.downcast().ok()? })
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states", self.0.len())
    }
}
