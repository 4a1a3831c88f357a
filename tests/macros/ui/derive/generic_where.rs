use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage<T>(T) where T: Clone;

fn is_job<J: Job>() {}

fn main() {
    is_job::<ResizeImage<u8>>();
}
