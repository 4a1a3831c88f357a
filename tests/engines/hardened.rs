//! Programs on a broker that is as strict as it can be.

use jobq_tests::hardened::Hardened;

use crate::control::{
    a_paused_queue_starts_no_job, a_pool_reports_what_it_does,
    a_pool_that_starts_at_a_paused_queue_waits, an_operator_sees_the_queues,
};
use crate::end_to_end::enqueue::delays_before_the_first_attempt;
use crate::end_to_end::failed::{
    a_job_without_attempts_left_is_kept_and_can_be_put_back,
    failed_jobs_are_shown_discarded_and_purged,
};

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
        a_pool_that_starts_at_a_paused_queue_waits(broker.store()),
        delays_before_the_first_attempt(broker.store()),
        a_job_without_attempts_left_is_kept_and_can_be_put_back(broker.store()),
        failed_jobs_are_shown_discarded_and_purged(broker.store()),
    );
}
