//! One value that all jobs of a pool share, and a unit test of a job function.
//!
//! ```text
//! cargo run --example state                                    # in memory: no server, no file
//! cargo test --example state                                   # the unit test below
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// A mailer of which a program has one. It need not be `Clone`: `State` keeps it in an `Arc`.
struct Mailer {
    sent: AtomicU32,
    letters: UnboundedSender<String>,
}

impl Mailer {
    fn new() -> (Self, UnboundedReceiver<String>) {
        let (letters, received) = mpsc::unbounded_channel();
        (Self { sent: AtomicU32::new(0), letters }, received)
    }

    fn send(&self, user: &str, text: &str) -> Result<(), BoxError> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.letters.send(format!("letter {number} to {user}: {text}"))?;
        Ok(())
    }
}

// The payload is `SendWelcome { user }`: `State` and `JobContext` are no part of it.
#[job]
async fn send_welcome(user: String, mailer: State<Mailer>) -> Result<(), BoxError> {
    mailer.send(&user, "welcome")
}

#[job]
async fn send_bill(
    user: String,
    order: u64,
    ctx: JobContext,
    mailer: State<Mailer>,
) -> Result<(), BoxError> {
    mailer.send(&user, &format!("the bill of order {order}, attempt {}", ctx.attempt()))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::connect("sqlite::memory:").await?;
    let (mailer, mut letters) = Mailer::new();
    // A pool without the state that a job needs is an error here, not at the first attempt.
    let running = WorkerPool::new(&client)
        .state(mailer)
        .register::<SendWelcome>()
        .register::<SendBill>()
        .spawn()
        .await?;

    client.enqueue(SendWelcome { user: "ann".into() }).await?;
    println!("{}", letters.recv().await.ok_or("the mailer is gone")?);
    client.enqueue(SendBill { user: "ann".into(), order: 17 }).await?;
    println!("{}", letters.recv().await.ok_or("the mailer is gone")?);

    running.shutdown().await?;
    client.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `#[job]` leaves the function as it is: a call needs no pool and no client.
    #[tokio::test]
    async fn a_bill_names_its_order() -> Result<(), BoxError> {
        let (mailer, mut letters) = Mailer::new();
        let ctx = JobContext::for_test().with_attempt(2, 4);
        send_bill("bob".into(), 5, ctx, State(mailer)).await?;
        let letter = letters.try_recv()?;
        assert_eq!(letter, "letter 1 to bob: the bill of order 5, attempt 2");
        Ok(())
    }
}
