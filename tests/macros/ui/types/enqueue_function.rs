use jobq::{BoxError, Client, job};

#[job]
async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

fn enqueue(client: &Client) {
    drop(client.enqueue(send_welcome(7)));
}

fn main() {}
