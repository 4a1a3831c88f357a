use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "images")]
#[job(retries = 1, queue = "pictures")]
struct ResizeImage {
    image: u64,
}

fn is_job<J: Job>() {}

fn main() {
    is_job::<ResizeImage>();
}
