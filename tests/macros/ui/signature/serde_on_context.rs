use jobq::{BoxError, job};

#[job]
async fn save(#[serde(skip)] ctx: jobq::JobContext) -> Result<(), BoxError> {
    Err(ctx.queue().into())
}

fn main() {}
