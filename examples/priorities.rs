//! An urgent job that overtakes hundreds of others.
//!
//! ```text
//! cargo run --example priorities
//! JOBQ_URL=amqp://localhost cargo run --example priorities
//! ```

use std::time::Duration;

use jobq::{BoxError, Client, JobContext, Priority, State, WorkerPool, job};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Sent = UnboundedSender<Priority>;

const LETTERS: u64 = 300;

/// Each of these is urgent.
#[job(queue = "mail", priority = "high")]
async fn send_reset(user_id: u64, ctx: JobContext, sent: State<Sent>) -> Result<(), BoxError> {
    println!("a link for user {user_id}");
    Ok(sent.send(ctx.priority())?)
}

/// Each enqueue may choose the priority.
#[job(queue = "mail", priorities)]
async fn send_news(user_id: u64, ctx: JobContext, sent: State<Sent>) -> Result<(), BoxError> {
    tokio::time::sleep(Duration::from_millis(50)).await; // a slow server
    if user_id == 0 {
        println!("the first letter");
    }
    Ok(sent.send(ctx.priority())?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;
    let news = (0..LETTERS).map(|user_id| SendNews { user_id });
    client.enqueue_all(news).priority(Priority::Low).await?;

    let (sent, mut letters) = unbounded_channel::<Priority>();
    let pool = WorkerPool::new(&client).state(sent).concurrency(4);
    let running = pool.register::<SendReset>().register::<SendNews>().spawn().await?;
    letters.recv().await.ok_or("the pool has ended")?;
    println!("the first of {LETTERS} letters is sent, and a user wants a new password");

    client.enqueue(SendReset { user_id: 7 }).await?;
    let mut before = 0;
    while letters.recv().await.ok_or("the pool has ended")? != Priority::High {
        before += 1;
    }
    println!("letters that were sent before the link: {before}");
    for _ in before + 1..LETTERS {
        letters.recv().await.ok_or("the pool has ended")?;
    }
    println!("all letters are sent");
    Ok(running.shutdown().await?)
}
