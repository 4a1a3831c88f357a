use jobq::Job;
use jobq::testing::__private::Recorded;
use jobq::testing::assert_enqueued;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Resize(u64, Option<String>, bool);

fn test(jobs: &impl Recorded) {
    assert_enqueued!(jobs, Resize(1..=7, Some("a.png")));
}

fn main() {}
