//! Programs on a broker that is as strict as it can be.

use jobq_tests::hardened::Hardened;

use crate::control::{
    a_paused_queue_starts_no_job, a_pool_reports_what_it_does, an_operator_sees_the_queues,
};
use crate::end_to_end::enqueue::delays_before_the_first_attempt;
use crate::end_to_end::failed::failed_jobs_are_kept_shown_retried_and_discarded;

/// Side by side, since the node is this test's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_and_are_administered() {
    let Some(broker) = Hardened::start("jobs_run_and_are_administered", &[]).await else {
        return;
    };
    tokio::join!(
        a_pool_reports_what_it_does(broker.store()),
        an_operator_sees_the_queues(broker.store()),
        a_paused_queue_starts_no_job(broker.store()),
        delays_before_the_first_attempt(broker.store()),
        failed_jobs_are_kept_shown_retried_and_discarded(broker.store()),
    );
}
