use clap::Args;
use jobq::JobId;
use jobq::admin::Cancelled;
use jobq::admin::text;
use serde_json::json;

use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;

/// Cancel a running job, in all pools
///
/// Asks the job function to end; an `async fn` is dropped five seconds later. The job fails as
/// `cancelled`, and `jobq failed retry` retries it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Id of the job
    id: JobId,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let id = arguments.id;
    let cancelled = options.admin(&client).cancel_running(id).await?;
    let line = |it: &Cancelled| format!("pool {}: {}\n", it.pool, text::cancel(it.cancel));
    let document = json!({"id": id, "cancelled": cancelled});
    output.answer(document, || cancelled.iter().map(line).collect())?;
    Ok(End::Done)
}
