use jobq::{BoxError, Client, WorkerPool, job};

#[job]
async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).handle(send_welcome)
}

fn main() {}
