//! A worker process, as one program for all of its kinds: `worker KIND ARGUMENT...`.

mod ends_worker;
mod fails_first;
mod soak_jobs;
mod ticks;
mod waits_for_others;

use jobq::BoxError;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (kind, arguments) = arguments.split_first().ok_or("the kind of worker is missing")?;
    match &**kind {
        "soak_jobs" => soak_jobs::work(arguments).await,
        "ticks" => ticks::work(arguments).await,
        "fails_first" => fails_first::work(arguments).await,
        "ends_worker" => ends_worker::work(arguments).await,
        "waits_for_others" => waits_for_others::work(arguments).await,
        other => Err(format!("there is no worker `{other}`").into()),
    }
}
