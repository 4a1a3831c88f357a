use clap::Args;
use jobq::admin::Resumed;

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
    output.answer(&resumed, || sentence(&resumed))?;
    Ok(End::Done)
}

/// The result, for people.
pub(crate) fn sentence(resumed: &Resumed) -> String {
    let was = if resumed.was_paused { "is resumed" } else { "was not paused" };
    format!("queue {} {was}", resumed.queue)
}
