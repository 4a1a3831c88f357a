use clap::Args;

use super::{job, nothing_found};
use crate::end::{End, Ended, Problem};
use crate::filter::FilterOptions;
use crate::options::Options;
use crate::output::Output;

/// The jobs of a page. Many, since each page looks at all failed jobs.
const PAGE: usize = 5_000;

/// Print failed jobs as JSON, one per line, oldest first
///
/// The jobs stay failed. The output may include jobs that fail during the export.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    filter: FilterOptions,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let filter = arguments.filter.filter()?;
    let client = options.client().await?;
    let failed = client.failed(&arguments.queue);
    let mut after = None;
    loop {
        let page = match failed.page(&filter, after, PAGE).await {
            Ok(page) => page,
            Err(error) if after.is_some() => {
                output.error(&format!(
                    "the remaining jobs are not printed: {}",
                    Problem::from(error)
                ));
                return Ok(End::Partly);
            }
            Err(error) => return Err(error.into()),
        };
        for job in &page.jobs {
            output.document(job::Document::from(job))?;
        }
        if page.next.is_none() && !page.complete {
            output.error(
                "the failed jobs could not all be read in time; the later ones are not printed",
            );
            return Ok(End::Partly);
        }
        if page.jobs.is_empty() && after.is_none() {
            return nothing_found(&client, &arguments.queue).await;
        }
        after = page.next;
        if after.is_none() {
            return Ok(End::Done);
        }
    }
}
