//! What must hold for each library in whose transactions jobq enqueues: the facts run over each adapter,
//! on a private database that they start.

mod adapter;
pub mod facts;
mod pgbouncer;
mod postgres;
mod work;

pub use adapter::{Adapter, Answer, End, Step};
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use work::{Effect, Effects, Note, NoteEvent, pool};

/// Makes a test of each fact for an adapter.
#[macro_export]
macro_rules! facts {
    ($adapter:ty: $($fact:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                $crate::facts::$fact::<$adapter>().await;
            }
        )*
    };
    ($adapter:ty) => {
        $crate::facts! {
            $adapter:
            what_commits_runs_and_what_is_rolled_back_does_not,
            options_pass_the_table,
            events_reach_their_subscribers,
            many_jobs_keep_their_order,
            an_invalid_job_leaves_the_transaction_usable,
            a_step_is_done_once,
            a_step_of_two_attempts_at_once_is_done_once,
            any_bytes_pass_the_table,
            a_missing_table_is_named,
            a_missing_right_is_named,
        }
    };
}
