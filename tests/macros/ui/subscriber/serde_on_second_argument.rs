use jobq::{BoxError, job};

#[job(on = "user.*")]
async fn welcome(event: String, #[serde(default)] vip: bool) -> Result<(), BoxError> {
    Err(format!("{event} {vip}").into())
}

fn main() {
    let _ = Welcome { event: String::new(), vip: false };
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Welcome>();
}
