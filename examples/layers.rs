//! Layers around every attempt: one that tells how each attempt ended, and one that begins a
//! transaction, hands it to the job's function as an argument, and commits it with the job.
//!
//! ```text
//! cargo run --example layers                                   # on the file jobq.db
//! JOBQ_URL=amqp://localhost cargo run --example layers         # on RabbitMQ
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jobq::{
    Attempt, BoxError, ClientBuilder, FromAttempt, JobContext, Next, Outcome, WorkerPool, job,
};
use tokio::sync::mpsc;

/// The payments of a shop. It stands for a database.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<u64>>>);

/// The writes of an attempt, until they are committed.
#[derive(Clone, Default)]
struct Transaction(Arc<Mutex<Vec<u64>>>);

impl Transaction {
    fn pay(&self, order: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    fn commit(&self, ledger: &Ledger) -> usize {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut payments = ledger.0.lock().unwrap_or_else(PoisonError::into_inner);
        payments.append(&mut written);
        payments.len()
    }
}

/// The argument: what the layer has left.
impl FromAttempt for Transaction {
    type Error = &'static str;

    fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error> {
        attempt.extensions().get().ok_or("no layer began a transaction")
    }
}

/// Fails once, after it has written.
#[job(retries = 1, delay = "500ms")]
async fn pay(
    order: u64,
    ctx: JobContext,
    #[context] transaction: Transaction,
) -> Result<(), BoxError> {
    transaction.pay(order);
    if ctx.attempt() == 1 {
        return Err("the bank is busy".into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let started = Instant::now();
    let say = move |text: String| println!("[{:4.1} s] {text}", started.elapsed().as_secs_f32());
    let client = ClientBuilder::from_env()?.namespace("layers").connect().await?;
    let ledger = Ledger::default();
    let (done, mut completed) = mpsc::unbounded_channel();

    // The first layer is the outermost.
    let telling = move |attempt: Attempt, next: Next| {
        let done = done.clone();
        async move {
            let which = format!("{}, attempt {}", attempt.job(), attempt.number());
            let outcome = next.run().await;
            say(format!("{which}: {}", outcome.error().unwrap_or("done")));
            if outcome.is_completed() && done.send(()).is_err() {
                return Outcome::failed("nobody waits for it");
            }
            outcome
        }
    };
    let in_transaction = move |attempt: Attempt, next: Next| {
        let ledger = ledger.clone();
        async move {
            let transaction = Transaction::default();
            attempt.extensions().insert(transaction.clone());
            let outcome = next.run().await;
            if outcome.is_completed() {
                say(format!("committed: {} payment", transaction.commit(&ledger)));
            } else {
                say("rolled back".to_owned());
            }
            outcome
        }
    };
    let pool = WorkerPool::new(&client).register::<Pay>().around(telling).around(in_transaction);
    let running = pool.spawn().await?;
    client.enqueue(Pay { order: 17 }).await?;
    completed.recv().await;
    running.shutdown().await?;
    client.close().await;
    Ok(())
}
