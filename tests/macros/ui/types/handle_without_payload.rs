use jobq::{BoxError, Client, Job, WorkerPool};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage {
    image: u64,
}

async fn resize() -> Result<(), BoxError> {
    Ok(())
}

fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).handle(resize)
}

fn main() {}
