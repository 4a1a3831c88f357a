//! A worker process: fails each job as often as its payload says, and writes every
//! attempt into a ledger that is none of jobq's.
//!
//! Arguments: URL, namespace, path of the ledger. It says `ready` when it has connected, and
//! ends at SIGTERM.

use std::path::Path;

use jobq::{BoxError, Client, JobContext, State, WorkerPool};
use jobq_tests::jobs::fails_first::FailsFirst;
use jobq_tests::ledger::Ledger;

async fn fails_first(
    job: FailsFirst,
    ctx: JobContext,
    ledger: State<Ledger>,
) -> Result<(), BoxError> {
    ledger.begins(ctx.id(), ctx.attempt());
    if ctx.attempt() <= job.failures {
        return Err(format!("failure {} of {}", ctx.attempt(), job.failures).into());
    }
    Ok(())
}

pub(crate) async fn work(arguments: &[String]) -> Result<(), BoxError> {
    let [url, namespace, ledger] = arguments else {
        return Err("expected URL NAMESPACE LEDGER".into());
    };
    let client = Client::builder(url).namespace(namespace).connect().await?;
    // Nobody kills these workers, and there are many lines.
    let ledger = Ledger::open(Path::new(ledger), "fails_first")?.without_disk();
    let pool = WorkerPool::new(&client).state(ledger).handle(fails_first);
    println!("ready");
    Ok(pool.concurrency(20).run().await?)
}
