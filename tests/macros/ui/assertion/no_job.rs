use jobq::testing::__private::Recorded;
use jobq::testing::assert_enqueued;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct ResizeImage {
    image: u64,
}

mod images {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Named(pub String);
}

fn test(jobs: &impl Recorded) {
    assert_enqueued!(jobs, ResizeImage { image: 7 });
    assert_enqueued!(jobs, images::Named(_));
}

fn main() {}
