use jobq::{BoxError, job};

#[job(on = "user.*")]
async fn welcome(event: String, ctx: jobq::JobContext, vip: bool, age: u8) -> Result<(), BoxError> {
    Err(format!("{event} {ctx:?} {vip} {age}").into())
}

fn main() {
    let _ = Welcome { event: String::new(), vip: false, age: 7 };
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Welcome>();
}
