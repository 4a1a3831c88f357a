use jobq::{BoxError, job};

#[job(on = "user.*")]
async fn welcome(ctx: jobq::JobContext) -> Result<(), BoxError> {
    Err(ctx.queue().into())
}

fn main() {
    let _ = Welcome {};
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Welcome>();
}
