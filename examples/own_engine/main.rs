//! A program whose jobs are in a store of its own.
//!
//! ```text
//! cargo run --example own_engine
//! ```

mod engine;

use std::sync::Arc;

use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::engine::List;

#[job(retries = 2, delay = "100ms")]
async fn greet(
    name: String,
    ctx: JobContext,
    greeted: State<UnboundedSender<String>>,
) -> Result<(), BoxError> {
    match ctx.attempt() {
        1 => Err("nobody hears it".into()),
        attempt => Ok(greeted.send(format!("attempt {attempt}: hello {name}"))?),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::with_engine(Arc::new(List::default()), "jobq");
    let (greeted, mut heard) = unbounded_channel::<String>();
    let running = WorkerPool::new(&client).state(greeted).register::<Greet>().spawn().await?;
    client.enqueue(Greet { name: "ann".into() }).await?;
    println!("{}", heard.recv().await.ok_or("the pool is gone")?);
    running.shutdown().await?;
    client.close().await;
    Ok(())
}
