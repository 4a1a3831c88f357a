//! The functions that [`WorkerPool::handle`](crate::WorkerPool::handle) takes.

use std::future::Future;
use std::sync::Arc;

use super::attempt::Attempt;
use super::extract::{FromAttempt, Requires};
use super::run::Call;
use crate::job::{BoxError, Job, JobResult};

/// An `async fn` or a plain `fn` that runs jobs. One argument is the [`Job`]; up to six others are
/// [`State<T>`](struct@crate::State), [`JobContext`](crate::JobContext) or another type with
/// [`FromAttempt`], in any order. It returns a `Result`. A plain `fn` may block: it has a thread of
/// its own.
///
/// Implemented for all such functions; `Arguments` distinguishes their signatures.
#[diagnostic::on_unimplemented(
    message = "this function cannot handle jobs",
    label = "not a function of a job that returns a `Result`",
    note = "for example `async fn resize(job: Resize, ctx: JobContext) -> \
            Result<(), jobq::BoxError>`, where `Resize` has `#[derive(Job)]`; further arguments \
            may be `State<T>` or have `FromAttempt`; it must take its arguments by value and return a `Result`",
    note = "`handle` takes the function alone, without a type: `.handle(resize)`",
    note = "a function with `#[job]` is registered by its type: `.register::<SendWelcome>()`"
)]
pub trait JobFunction<Arguments>: Send + Sync + 'static {
    /// The job that the function runs.
    type Job: Job;

    /// Whether the function is a plain `fn`.
    #[doc(hidden)]
    const BLOCKS: bool;

    /// Names the states that the arguments need.
    #[doc(hidden)]
    fn requires(requires: &mut Requires);

    /// Calls the function. The error is that of an argument.
    #[doc(hidden)]
    fn call(this: &Arc<Self>, job: Self::Job, attempt: &Attempt) -> Result<Call, BoxError>;
}

/// Marks the arguments of a plain `fn`, as opposed to an `async fn`.
#[derive(Debug)]
pub struct Plain;

/// Implements [`JobFunction`] for functions whose payload comes after `$before` and before
/// `$after`.
macro_rules! job_function {
    ([$($before:ident)*] [$($after:ident)*]) => {
        // The variables have the names of the types, and a function may have only its payload.
        #[allow(non_snake_case, unused_variables)]
        impl<F, R, P, $($before,)* $($after,)*> JobFunction<(($($before,)*), P, ($($after,)*))> for F
        where
            F: Fn($($before,)* P, $($after,)*) -> R + Send + Sync + 'static,
            R: Future + Send + 'static,
            R::Output: JobResult,
            P: Job,
            $($before: FromAttempt + Send + 'static,)*
            $($after: FromAttempt + Send + 'static,)*
        {
            type Job = P;

            const BLOCKS: bool = false;

            fn requires(requires: &mut Requires) {
                $($before::requires(requires);)*
                $($after::requires(requires);)*
            }

            fn call(this: &Arc<Self>, job: P, attempt: &Attempt) -> Result<Call, BoxError> {
                $(let $before = $before::argument(attempt)?;)*
                $(let $after = $after::argument(attempt)?;)*
                Ok(Call::future(this($($before,)* job, $($after,)*)))
            }
        }

        #[allow(non_snake_case, unused_variables)]
        impl<F, R, P, $($before,)* $($after,)*>
            JobFunction<(Plain, ($($before,)*), P, ($($after,)*))> for F
        where
            F: Fn($($before,)* P, $($after,)*) -> R + Send + Sync + 'static,
            R: JobResult,
            P: Job,
            $($before: FromAttempt + Send + 'static,)*
            $($after: FromAttempt + Send + 'static,)*
        {
            type Job = P;

            const BLOCKS: bool = true;

            fn requires(requires: &mut Requires) {
                $($before::requires(requires);)*
                $($after::requires(requires);)*
            }

            fn call(this: &Arc<Self>, job: P, attempt: &Attempt) -> Result<Call, BoxError> {
                let this = Arc::clone(this);
                $(let $before = $before::argument(attempt)?;)*
                $(let $after = $after::argument(attempt)?;)*
                Ok(Call::blocking(move || this($($before,)* job, $($after,)*)))
            }
        }
    };
}

/// Implements it for every position of the payload among these arguments.
macro_rules! every_place {
    ([$($before:ident)*] []) => {
        job_function!([$($before)*] []);
    };
    ([$($before:ident)*] [$next:ident $($after:ident)*]) => {
        job_function!([$($before)*] [$next $($after)*]);
        every_place!([$($before)* $next] [$($after)*]);
    };
}

every_place!([] []);
every_place!([][A]);
every_place!([] [A B]);
every_place!([] [A B C]);
every_place!([] [A B C D]);
every_place!([] [A B C D E]);
every_place!([] [A B C D E G]);
