use jobq::testing::assert_enqueued;
use jobq::{BoxError, Client, job};

#[job]
async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
    Err(format!("{user_id} {email}").into())
}

fn test(client: &Client) {
    assert_enqueued!(client, SendWelcome { .. });
}

fn main() {}
