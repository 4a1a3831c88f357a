use jobq::{BoxError, job};

#[job(retries = 3, unchecked = true)]
async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

fn main() {
    let _ = SendWelcome { user_id: 7 };
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<SendWelcome>();
    drop(send_welcome(7));
}
