use jobq::{BoxError, job};

#[job(on = "user.*")]
async fn welcome((id, name): (u8, String)) -> Result<(), BoxError> {
    Err(format!("{id} {name}").into())
}

fn main() {
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Welcome>();
}
