use jobq::{BoxError, Client, Job, WorkerPool};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage {
    image: u64,
}

async fn resize(job: ResizeImage) -> u64 {
    job.image
}

fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).handle(resize)
}

fn main() {}
