use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(retries = 0, delay = ["10s"])]
struct ResizeImage {
    image: u64,
}

fn is_job<J: Job>() {}

fn main() {
    is_job::<ResizeImage>();
}
