//! The arguments of a job function other than its payload.

use std::any::{TypeId, type_name};
use std::convert::Infallible;
use std::sync::Arc;

use super::attempt::Attempt;
use super::context::JobContext;
use super::state::State;
use crate::job::BoxError;

/// An argument of a job function other than its payload: [`State<T>`](struct@State),
/// [`JobContext`], or a type of your own that is made from the attempt.
///
/// In a function with `#[job]`, mark an argument of your own type with `#[context]`; in a function
/// for [`WorkerPool::handle`](crate::WorkerPool::handle) it needs no mark. Arguments are made after
/// the payload was decoded and inside the [layers](crate::WorkerPool::around).
///
/// ```
/// use jobq::{Attempt, BoxError, FromAttempt, Requires, State, job};
///
/// struct Pool;
///
/// struct Connection;
///
/// impl FromAttempt for Connection {
///     type Error = BoxError;
///
///     fn requires(requires: &mut Requires) {
///         requires.state::<Pool>();
///     }
///
///     fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error> {
///         let pool: State<Pool> = attempt.state().ok_or("there is no pool of connections")?;
///         Ok(Connection)
///     }
/// }
///
/// #[job]
/// async fn import(file: String, #[context] connection: Connection) -> Result<(), BoxError> {
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job function beside its payload",
    label = "neither `State<T>` nor `JobContext`, and without `FromAttempt`",
    note = "a job function's arguments are its payload, `State<T>` with a `T: Send + Sync`, \
            `JobContext`, and types that implement `jobq::FromAttempt`"
)]
pub trait FromAttempt: Sized {
    /// The error if the argument cannot be made. It ends the attempt like an error of the function,
    /// a [`Control`](crate::Control) included.
    type Error: Into<BoxError>;

    /// Names the [states](crate::WorkerPool::state) that the argument needs; a pool without one
    /// does not start. Defaults to none.
    fn requires(requires: &mut Requires) {
        let _ = requires;
    }

    /// Makes the argument. It must not block.
    ///
    /// # Errors
    ///
    /// See [`Error`](Self::Error).
    fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error>;

    /// The argument, or its error as a [`BoxError`].
    #[doc(hidden)]
    fn argument(attempt: &Attempt) -> Result<Self, BoxError> {
        Self::from_attempt(attempt).map_err(Into::into)
    }
}

impl<T: Send + Sync + 'static> FromAttempt for State<T> {
    type Error = BoxError;

    fn requires(requires: &mut Requires) {
        requires.state::<T>();
    }

    fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error> {
        let missing = || format!("the pool has no state of type `{}`", type_name::<T>());
        attempt.state().ok_or_else(|| missing().into())
    }
}

impl FromAttempt for JobContext {
    type Error = Infallible;

    fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error> {
        Ok(Self::of(attempt))
    }
}

/// The states that the arguments of a job function need.
#[derive(Debug, Default)]
pub struct Requires(Vec<NeededState>);

/// A state that an argument needs.
#[derive(Debug)]
pub(super) struct NeededState {
    pub(super) id: TypeId,
    /// The type of an `Arc` of it.
    pub(super) arc: TypeId,
    pub(super) name: &'static str,
}

impl Requires {
    /// Adds a [state](crate::WorkerPool::state) of this type.
    pub fn state<T: Send + Sync + 'static>(&mut self) {
        let (id, arc) = (TypeId::of::<T>(), TypeId::of::<Arc<T>>());
        self.0.push(NeededState { id, arc, name: type_name::<T>() });
    }

    pub(super) fn states(&self) -> &[NeededState] {
        &self.0
    }
}
