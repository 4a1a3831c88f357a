//! What must hold for each library in whose transactions jobq enqueues: the facts run over each adapter,
//! on a private database that they start.

mod adapter;
mod database;
pub mod facts;
mod mariadb;
mod pgbouncer;
mod postgres;
mod process;
mod work;

pub use adapter::{Adapter, Answer, End, Step};
pub use database::{Database, Users};
pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use work::{Effect, Effects, Note, NoteEvent, pool, pool_alone};

/// Makes a test of each fact for an adapter, on PostgreSQL or `on` another database.
#[macro_export]
macro_rules! facts {
    ($adapter:ty, $database:ty: $($fact:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                $crate::facts::$fact::<$adapter, $database>().await;
            }
        )*
    };
    ($adapter:ty, without users on $database:ty) => {
        $crate::facts! {
            $adapter, $database:
            what_commits_runs_and_what_is_rolled_back_does_not,
            options_pass_the_table,
            events_reach_their_subscribers,
            many_jobs_keep_their_order,
            an_invalid_job_leaves_the_transaction_usable,
            a_step_is_done_once,
            a_step_of_two_attempts_at_once_is_done_once,
            any_bytes_pass_the_table,
            a_missing_table_is_named,
        }
    };
    ($adapter:ty, on $database:ty) => {
        $crate::facts! { $adapter, without users on $database }
        $crate::facts! { $adapter, $database: a_missing_right_is_named }
    };
    ($adapter:ty) => {
        $crate::facts! { $adapter, on $crate::Postgres }
    };
}
