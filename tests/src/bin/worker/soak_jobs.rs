//! A process that runs soak jobs, with every attempt in a ledger, until it is killed or gets
//! SIGTERM.
//!
//! Arguments: URL, namespace, path of the ledger, its name there, the lease of a file's
//! jobs in milliseconds, how many enqueue soak jobs all the time. It says `ready` when it
//! consumes. On a broker, and on a file with the default lease, it has traces.

use std::path::Path;
use std::time::Duration;

use jobq::{BoxError, Client};
use jobq_tests::jobs::soak_job::{self, Load};
use jobq_tests::ledger::Ledger;
use jobq_tests::spans::{NoContext, Outcomes};
use jobq_tests::test_store::DEADLINE;
use tokio::signal::unix::{SignalKind, signal};

/// That of a file whose client is made of its URL.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn work(arguments: &[String]) -> Result<(), BoxError> {
    let [url, namespace, ledger, name, lease, load] = arguments else {
        return Err("expected URL NAMESPACE LEDGER NAME LEASE_MS LOAD".into());
    };
    jobq_tests::increments::Increments::install(Path::new(ledger), name)?;
    let lease = Duration::from_millis(lease.parse()?);
    let client = if url.starts_with("sqlite:") && lease != DEFAULT_LEASE {
        let engine = jobq::engine::conformance::open_with_lease(url, namespace, lease).await?;
        Client::with_engine(engine, namespace)
    } else {
        Outcomes::install(Path::new(ledger), name)?;
        let builder = Client::builder(url).namespace(namespace).timeout(DEADLINE);
        builder.propagation(NoContext).connect().await?
    };
    let ledger = Ledger::open(Path::new(ledger), name)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let load = Load::start(&client, &ledger, load.parse()?);
    let running = soak_job::pool(&client, &ledger).spawn().await?;
    println!("ready");
    tokio::select! {
        ended = running.wait() => return Ok(ended?),
        _ = terminate.recv() => load.stop().await,
    }
    // The end of the program: nothing is closed before.
    Ok(running.shutdown().await?)
}
