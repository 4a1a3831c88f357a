use jobq::{BoxError, job};

#[job(on = "user.*")]
async fn welcome() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let _ = Welcome {};
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Welcome>();
}
