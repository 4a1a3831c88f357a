use jobq::Job;
use serde::{Deserialize, Serialize};

#[jobq::job(queue = "images")]
#[derive(Serialize, Deserialize, Job)]
struct ResizeImage {
    image: u64,
}

fn main() {
    let _ = ResizeImage { image: 7 };
}
