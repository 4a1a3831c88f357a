use jobq::{Client, Job, WorkerPool};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage {
    image: u64,
}

fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).register::<ResizeImage>()
}

fn main() {}
