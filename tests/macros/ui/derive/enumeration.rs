use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
enum ResizeImage {
    Small,
    Large,
}

fn is_job<J: Job>() {}

fn main() {
    is_job::<ResizeImage>();
}
