//! A worker process, as one program for all of its kinds: `worker KIND ARGUMENT...`.

mod errands;
mod flaky;
mod fragile;
mod patient;

use jobq::BoxError;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (kind, arguments) = arguments.split_first().ok_or("the kind of worker is missing")?;
    match &**kind {
        "errands" => errands::work(arguments).await,
        "flaky" => flaky::work(arguments).await,
        "fragile" => fragile::work(arguments).await,
        "patient" => patient::work(arguments).await,
        other => Err(format!("there is no worker `{other}`").into()),
    }
}
