use jobq::Job;
use jobq::testing::__private::Recorded;
use jobq::testing::assert_enqueued;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Resize(u64, Option<String>);

fn test(jobs: &impl Recorded) {
    assert_enqueued!(jobs, Resize(7, None, 1));
}

fn main() {}
