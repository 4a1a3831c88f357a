use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "../images")]
struct ResizeImage {
    image: u64,
}

fn is_job<J: Job>() {}

fn main() {
    is_job::<ResizeImage>();
}
