use jobq::{BoxError, job};

#[job(ohn = "user.created")]
async fn welcome(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

fn main() {
    let _ = Welcome { event: String::new() };
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Welcome>();
}
