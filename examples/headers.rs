//! Headers: a tenant that a hook sets for every job, and a trace that one call sets. A layer
//! restores the tenant around each attempt, so that further jobs have it too.
//!
//! ```text
//! cargo run --example headers                                  # in memory: no server, no file
//! ```

use jobq::{Attempt, BoxError, Client, JobContext, Next, Outgoing, State, WorkerPool, job};
use tokio::sync::mpsc;

tokio::task_local! {
    /// The tenant that a request or an attempt is for.
    static TENANT: String;
}

/// Fails once, and then enqueues another job. A retry has the headers of the first attempt.
#[job(retries = 1, delay = "100ms")]
async fn pay(order: u64, ctx: JobContext) -> Result<(), BoxError> {
    println!("pay:  order {order}, attempt {}, {}", ctx.attempt(), headers(&ctx));
    if ctx.attempt() == 1 {
        return Err("the bank is busy".into());
    }
    ctx.client().enqueue(Ship { order }).await?;
    Ok(())
}

#[job]
async fn ship(order: u64, ctx: JobContext, done: State<Done>) -> Result<(), BoxError> {
    println!("ship: order {order}, attempt {}, {}", ctx.attempt(), headers(&ctx));
    done.send(())?;
    Ok(())
}

type Done = mpsc::UnboundedSender<()>;

fn headers(ctx: &JobContext) -> String {
    let header = |name| ctx.header(name).unwrap_or("none");
    format!("tenant {}, trace {}", header("tenant"), header("trace"))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::builder("sqlite::memory:")
        // Without a tenant the error of `try_with` refuses the job.
        .on_enqueue(|job: &mut Outgoing| job.header("tenant", TENANT.try_with(String::clone)?))
        .connect()
        .await?;
    let (done, mut completed) = mpsc::unbounded_channel();
    let running = WorkerPool::new(&client)
        .state::<Done>(done)
        .register::<Pay>()
        .register::<Ship>()
        .around(|attempt: Attempt, next: Next| async move {
            match attempt.header("tenant") {
                Some(tenant) => TENANT.scope(tenant.to_owned(), next.run()).await,
                None => next.run().await,
            }
        })
        .spawn()
        .await?;

    if let Err(error) = client.enqueue(Pay { order: 1 }).await {
        println!("main: order 1 is refused, invalid: {}", error.is_invalid());
    }
    let request = async { client.enqueue(Pay { order: 17 }).header("trace", "4bf92f35").await };
    TENANT.scope("acme".into(), request).await?;
    completed.recv().await;

    running.shutdown().await?;
    client.close().await;
    Ok(())
}
