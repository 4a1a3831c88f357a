//! Job functions with `#[job]`, and their calls.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt as _;

use super::attempt::Attempt;
use super::extract::Requires;
use crate::guard::{self, Guarded, guarded};
use crate::job::{BoxError, Job, JobResult, Outcome};

/// A [`Job`] with its own function. Only `#[job]` on a function implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no function of its own to run",
    label = "not made by `#[job]` on a function",
    note = "for a type with `#[derive(Job)]` write \
            `.handle(function)` with an `async fn function(job: {Self}) -> Result<..>`; \
            for a function with `#[job]` register the type that it makes: `.register::<SendWelcome>()`"
)]
pub trait Run: Job {
    /// Whether the function is a plain `fn`.
    #[doc(hidden)]
    const BLOCKS: bool = false;

    /// Names the states that the function's arguments need.
    #[doc(hidden)]
    fn requires(requires: &mut Requires);

    /// Calls the function. The error is that of an argument.
    #[doc(hidden)]
    fn call(self, attempt: &Attempt) -> Result<Call, BoxError>;
}

/// A type that can be part of a payload. `#[job]` requires it of each argument, so that the first
/// compile error of one that cannot explains the alternatives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument that the client sends",
    label = "needs `State<..>`, or `Serialize` and `Deserialize`",
    note = "if the worker pool provides it, write `State<T>` and give the pool a `T` by `.state(..)`; \
            a type with `FromAttempt` needs `#[context]` before the argument",
    note = "if the client sends it, it travels as JSON and needs \
            `#[derive(serde::Serialize, serde::Deserialize)]`"
)]
pub trait Travels {}

#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Travels for T {}

/// [`Travels`], with another error: of an argument whose type is called `Client` or `Attempt`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument that the client sends",
    label = "take `ctx: JobContext`, which has `ctx.client()` and `ctx.attempt()`",
    note = "a payload of your own with this name needs \
            `#[derive(serde::Serialize, serde::Deserialize)]`"
)]
pub trait TravelsBesideContext {}

#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + serde::de::DeserializeOwned> TravelsBesideContext for T {}

/// A job function with all its arguments, ready to run.
pub struct Call(Kind);

enum Kind {
    Future(Guarded<Pin<Box<dyn Future<Output = Outcome> + Send>>>),
    Blocking(Guarded<Box<dyn FnOnce() -> Outcome + Send>>),
}

/// A decoded job: makes the call of its function.
pub(super) type Ready = Box<dyn FnOnce(&Attempt) -> Result<Call, BoxError> + Send>;

impl Call {
    /// The call of an `async fn`.
    pub fn future<F>(future: F) -> Self
    where
        F: Future + Send + 'static,
        F::Output: JobResult,
    {
        Self::layer(async { future.await.into_outcome() })
    }

    /// The call of a plain `fn`, which may block.
    pub fn blocking<F, R>(function: F) -> Self
    where
        F: FnOnce() -> R + Send + 'static,
        R: JobResult,
    {
        Self(Kind::Blocking(Guarded::new(Box::new(|| function().into_outcome()))))
    }

    /// The call of a layer.
    pub(super) fn layer(future: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self(Kind::Future(Guarded::new(Box::pin(future))))
    }

    /// A call that fails because an argument cannot be made.
    pub(super) fn refused(error: BoxError) -> Self {
        Self::blocking(move || Err::<(), _>(error))
    }

    /// Runs the call to its end.
    pub(super) async fn run(self) -> Outcome {
        let ended = match self.0 {
            Kind::Blocking(function) => guarded(function.into_inner()),
            Kind::Future(mut future) => {
                let ended = AssertUnwindSafe(future.get_mut().as_mut()).catch_unwind().await;
                // Dropping the future runs user code, too.
                match guarded(|| drop(future.into_inner())) {
                    Ok(()) => ended,
                    Err(panic) => {
                        guard::dispose(ended);
                        Err(panic)
                    }
                }
            }
        };
        ended.unwrap_or_else(Outcome::panicked)
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
