use clap::Args;

use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;

/// Resume a paused queue
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let resumed = options.admin(&client).resume(&arguments.queue).await?;
    if output.is_json() {
        output.document(&resumed)?;
    } else {
        let was = if resumed.was_paused { "is resumed" } else { "was not paused" };
        output.line(&format!("queue {} {was}", resumed.queue))?;
    }
    Ok(End::Done)
}
