//! The functions that [`WorkerPool::handle`](crate::WorkerPool::handle) takes.

use std::future::Future;

use super::run::{Argument, Call, Needs, Scope};
use crate::job::{Job, JobResult};

/// An `async fn` that runs jobs: one argument is the [`Job`], up to six others are
/// [`State<T>`](struct@crate::State) and [`JobContext`](crate::JobContext) in any order, and
/// it returns a `Result`.
///
/// It is implemented for all such functions; `Arguments` tells their shapes apart.
#[diagnostic::on_unimplemented(
    message = "this function cannot handle jobs",
    label = "not an `async fn` of a job that returns a `Result`",
    note = "write for example `async fn resize(job: Resize, ctx: JobContext) -> \
            Result<(), jobq::BoxError>`, where `Resize` has `#[derive(Job)]`; further arguments \
            may be `State<T>`; it must be `async`, take its arguments by value and return a `Result`",
    note = "a function with `#[job]` is given by its type: `.register::<SendWelcome>()`"
)]
pub trait JobFunction<Arguments>: Send + Sync + 'static {
    /// The job that the function runs.
    type Job: Job;

    /// Names the states that the arguments need.
    #[doc(hidden)]
    fn needs(needs: &mut Needs);

    /// Calls the function.
    #[doc(hidden)]
    fn call(&self, job: Self::Job, scope: &Scope<'_>) -> Call;
}

/// Implements it for functions whose payload comes after `$before` and before `$after`.
macro_rules! job_function {
    ([$($before:ident)*] [$($after:ident)*]) => {
        #[allow(non_snake_case, unused_variables)]
        impl<F, R, P, $($before,)* $($after,)*> JobFunction<(($($before,)*), P, ($($after,)*))> for F
        where
            F: Fn($($before,)* P, $($after,)*) -> R + Send + Sync + 'static,
            R: Future + Send + 'static,
            R::Output: JobResult,
            P: Job,
            $($before: Argument,)*
            $($after: Argument,)*
        {
            type Job = P;

            fn needs(needs: &mut Needs) {
                $($before::need(needs);)*
                $($after::need(needs);)*
            }

            fn call(&self, job: P, scope: &Scope<'_>) -> Call {
                Call::future(self($($before::take(scope),)* job, $($after::take(scope),)*))
            }
        }
    };
}

/// Every place that the payload can have among these other arguments.
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
