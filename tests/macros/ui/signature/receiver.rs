use jobq::{BoxError, job};

struct Mailer;

impl Mailer {
    #[job]
    async fn send_welcome(&self, user_id: u64) -> Result<(), BoxError> {
        Err(user_id.to_string().into())
    }
}

fn main() {
    drop(Mailer.send_welcome(7));
}
