//! What `#[job]` makes of a function: how to call it with its arguments.

use std::any::{TypeId, type_name};
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::attempt::Attempt;
use super::context::JobContext;
use super::state::State;
use crate::guard::Guarded;
use crate::job::{Job, JobResult, Outcome};

/// A [`Job`] that knows the function that runs it. Only `#[job]` on a function makes
/// one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no function of its own to run",
    label = "not made by `#[job]` on a function",
    note = "for a type with `#[derive(Job)]` write \
            `.handle(function)` with an `async fn function(job: {Self}) -> Result<..>`; \
            for a function with `#[job]` register the type that it makes: `.register::<SendWelcome>()`"
)]
pub trait Run: Job {
    /// Whether it is a plain `fn`.
    #[doc(hidden)]
    const BLOCKS: bool = false;

    /// Names the states that the function's arguments need.
    #[doc(hidden)]
    fn needs(needs: &mut Needs);

    /// Calls the function.
    #[doc(hidden)]
    fn call(self, attempt: &Attempt) -> Call;
}

/// A type that can travel as a part of a payload. `#[job]` asks for it at each argument, so that
/// the first error of one that cannot says what it may be meant for.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument that the client gives",
    label = "needs `State<..>`, or `Serialize` and `Deserialize`",
    note = "if the worker pool is to give it, write `State<T>` and give the pool a `T` by `.state(..)`",
    note = "if the client is to give it, it travels as JSON, for which it needs \
            `#[derive(serde::Serialize, serde::Deserialize)]`"
)]
pub trait Travels {}

#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Travels for T {}

/// An argument of a job function that is no payload: [`State<T>`](struct@State) or [`JobContext`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument that a job function can have beside its payload",
    label = "neither `State<T>` nor `JobContext`",
    note = "a job function's arguments are its payload, `State<T>` with a `T: Send + Sync`, \
            and `JobContext`"
)]
pub trait Argument: Sized + Send + 'static {
    /// Names the state that the argument needs.
    #[doc(hidden)]
    fn need(needs: &mut Needs);

    /// The argument's value.
    #[doc(hidden)]
    fn take(attempt: &Attempt) -> Self;
}

impl<T: Send + Sync + 'static> Argument for State<T> {
    fn need(needs: &mut Needs) {
        needs.0.push((TypeId::of::<T>(), type_name::<T>()));
    }

    fn take(attempt: &Attempt) -> Self {
        attempt
            .resources
            .states
            .get()
            .expect("a pool starts only with every state that its jobs need")
    }
}

impl Argument for JobContext {
    fn need(_: &mut Needs) {}

    fn take(attempt: &Attempt) -> Self {
        Self::new(attempt)
    }
}

/// The states that a job function needs, each with its type's name.
#[derive(Debug, Default)]
pub struct Needs(pub(crate) Vec<(TypeId, &'static str)>);

/// A job function with all its arguments, ready to run.
pub struct Call(pub(crate) Kind);

pub(crate) enum Kind {
    Future(Guarded<Awaiting>),
    Blocking(Guarded<Function>),
}

/// An `async fn` with its arguments.
pub(crate) type Awaiting = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A plain `fn` with its arguments.
pub(crate) type Function = Box<dyn FnOnce() -> Outcome + Send>;

impl Call {
    /// An `async fn`.
    pub fn future<F>(future: F) -> Self
    where
        F: Future + Send + 'static,
        F::Output: JobResult,
    {
        let future: Awaiting = Box::pin(async { future.await.into_outcome() });
        Self(Kind::Future(Guarded::new(future)))
    }

    /// A plain `fn`, to be run where it may block.
    pub fn blocking<F, R>(function: F) -> Self
    where
        F: FnOnce() -> R + Send + 'static,
        R: JobResult,
    {
        let function: Function = Box::new(|| function().into_outcome());
        Self(Kind::Blocking(Guarded::new(function)))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Future(_) => "Call::future",
            Kind::Blocking(_) => "Call::blocking",
        })
    }
}
