mod jobs {
    use jobq::{BoxError, job};

    #[job]
    async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
        Err(user_id.to_string().into())
    }
}

use jobs::SendWelcome;

fn main() {
    drop(SendWelcome { user_id: 7 });
}
