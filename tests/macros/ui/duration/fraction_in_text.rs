use jobq::{BoxError, job};

#[job(timeout = "1.5s")]
async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

fn main() {
    let _ = SendWelcome { user_id: 7 };
}
