use clap::Args;
use jobq::JobId;
use jobq::admin::Cancelled;
use jobq::admin::text;
use serde::Serialize;

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
    #[derive(Serialize)]
    struct Document {
        id: JobId,
        cancelled: Vec<Cancelled>,
    }

    let client = options.client().await?;
    let id = arguments.id;
    let cancelled = options.admin(&client).cancel_running(id).await?;
    if output.is_json() {
        output.document(Document { id, cancelled })?;
        return Ok(End::Done);
    }
    for Cancelled { pool, cancel, .. } in cancelled {
        output.line(&format!("pool {pool}: {}", text::cancel(cancel)))?;
    }
    Ok(End::Done)
}
