//! A plain `fn` handles jobs as an `async fn` does.

use jobq::{BoxError, Client, Job, JobContext, State, WorkerPool};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage {
    image: u64,
}

fn resize(ctx: JobContext, job: ResizeImage, least: State<u64>) -> Result<(), BoxError> {
    assert!(job.image >= *least && ctx.attempt() > 0);
    Ok(())
}

#[allow(dead_code)] // it is compiled
fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).handle(resize).state(7u64)
}

fn main() {}
