//! A worker process that some of its jobs take down. It writes each job that completes
//! into a ledger that is none of jobq's.
//!
//! Arguments: URL, namespace, path of the ledger. It ends at SIGTERM, or of a job.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use jobq::{BoxError, Client, State, WorkerPool};
use jobq_tests::jobs::ends_worker::{End, EndsWorker};

async fn ends_worker(job: EndsWorker, ledger: State<File>) -> Result<(), BoxError> {
    // Who aborts does so before anything else can happen.
    if job.end != End::Abort {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    match job.end {
        End::Complete => {}
        End::Abort => std::process::abort(),
        End::Overflow => drop(overflow(0)),
        End::Kill => {
            let id = std::process::id().to_string();
            std::process::Command::new("kill").args(["-9", &id]).status()?;
            std::future::pending::<()>().await;
        }
    }
    // One write of a few bytes to a file opened for appending is not interleaved.
    (&*ledger).write_all(format!("{}\n", job.number).as_bytes())?;
    Ok(())
}

#[allow(unconditional_recursion)] // that is what it is for
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    overflow(room[0] + 1) + room[1]
}

pub(crate) async fn work(arguments: &[String]) -> Result<(), BoxError> {
    let [url, namespace, ledger] = arguments else {
        return Err("expected URL NAMESPACE LEDGER".into());
    };
    let client = if url.starts_with("sqlite:") {
        // What a process that died had in hand is to come back soon.
        let lease = Duration::from_millis(600);
        let engine = jobq::engine::conformance::open_with_lease(url, namespace, lease).await?;
        Client::with_engine(engine, namespace)
    } else {
        Client::builder(url).namespace(namespace).connect().await?
    };
    let ledger = File::options().append(true).create(true).open(ledger)?;
    Ok(WorkerPool::new(&client).state(ledger).handle(ends_worker).run().await?)
}
