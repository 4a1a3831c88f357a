use jobq::{BoxError, job};

#[job(cron = "0 3 * * *")]
async fn clean_up(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

fn main() {
    let _ = CleanUp { user_id: 7 };
}
