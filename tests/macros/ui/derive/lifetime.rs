use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage<'a> {
    image: &'a str,
}

fn main() {}
