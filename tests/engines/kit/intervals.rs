//! Intervals: what one piece of code enqueued.

use jobq::testing::Jobs;
use jobq::{BoxError, job};

use super::panic_of;

#[job]
async fn audit(what: String) -> Result<(), BoxError> {
    drop(what);
    Ok(())
}

#[tokio::test]
async fn intervals_that_overlap_are_refused() {
    let jobs = Jobs::new().register::<Audit>().start().await;
    let text = panic_of(jobs.during(jobs.during(async {}))).await;
    assert!(text.starts_with("two calls of `during` overlap"), "{text}");
    // The first one has ended with the panic.
    assert_eq!(jobs.during(async { 7 }).await.value, 7);
}
