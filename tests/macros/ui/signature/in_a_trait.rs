use jobq::{BoxError, job};

trait Mailer {
    #[job]
    async fn send_welcome(user_id: u64) -> Result<(), BoxError>;
}

fn main() {}
