//! A worker process with jobs that wait for the end of others. It writes when each begins
//! and ends into a ledger that is none of jobq's.
//!
//! Arguments: URL, namespace, path of the ledger, 0 for jobs that wait for nothing or 1. It
//! ends when it is killed.

use std::fs::File;
use std::io::Write as _;

use jobq::{BoxError, Client, State, WorkerPool};
use jobq_tests::jobs::waits_for_others::WaitsForOthers;
use tokio::sync::watch;

struct Worker {
    ledger: File,
    waits: bool,
    ended: watch::Sender<u32>,
}

impl Worker {
    fn write(&self, word: &str, number: u32) -> std::io::Result<()> {
        // One write of a few bytes to a file opened for appending is not interleaved.
        (&self.ledger).write_all(format!("{word} {number}\n").as_bytes())
    }
}

async fn waits_for_others(job: WaitsForOthers, worker: State<Worker>) -> Result<(), BoxError> {
    worker.write("begins", job.number)?;
    if worker.waits && job.until > 0 {
        worker.ended.subscribe().wait_for(|ended| *ended >= job.until).await?;
        worker.write("waited", job.number)?;
        std::future::pending::<()>().await;
    }
    worker.write("ends", job.number)?;
    worker.ended.send_modify(|ended| *ended += 1);
    Ok(())
}

pub(crate) async fn work(arguments: &[String]) -> Result<(), BoxError> {
    let [url, namespace, ledger, waits] = arguments else {
        return Err("expected URL NAMESPACE LEDGER 0|1".into());
    };
    let client = Client::builder(url).namespace(namespace).connect().await?;
    let ledger = File::options().append(true).create(true).open(ledger)?;
    let worker = Worker { ledger, waits: waits == "1", ended: watch::Sender::new(0) };
    Ok(WorkerPool::new(&client).state(worker).handle(waits_for_others).run().await?)
}
