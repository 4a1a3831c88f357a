use clap::Args;
use jobq::WorkerPool;
use jobq::relay::Source as _;

use crate::commands::outbox::Database;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;
use crate::signals;

/// Enqueue the jobs that transactions have left in the outbox of a database
///
/// Runs until Ctrl-C or SIGTERM. Any number may run on one database: one works, and another one takes
/// over when it ends. What cannot be sent is logged, and is tried again. `jobq workers` shows the relay
/// as a pool without queues. A pool with queues can do the same: see `WorkerPool::relay`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: Database,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.enqueuing_client().await?;
    let outbox = arguments.database.source()?;
    output.note(&format!("relaying from {}", outbox.name()));
    WorkerPool::new(&client).relay(outbox).run_until(signals::stop()).await?;
    client.close().await;
    Ok(End::Done)
}
