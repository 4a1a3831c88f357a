use jobq::job;
use serde::{Deserialize, Serialize};

#[job(queue = "images")]
#[derive(Serialize, Deserialize)]
struct ResizeImage {
    image: u64,
}

fn main() {
    let _ = ResizeImage { image: 7 };
}
