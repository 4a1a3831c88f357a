use jobq::testing::__private::Recorded;
use jobq::testing::assert_published;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct ResizeImage {
    image: u64,
}

fn test(jobs: &impl Recorded) {
    assert_published!(jobs, ResizeImage { image: 7 });
}

fn main() {}
