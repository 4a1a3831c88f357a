use clap::Args;
use jobq::admin::Figure;
use jobq::admin::text;

use super::queues::{exists, missing};
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::{Explained, Output};

/// The next step while pools may still take jobs.
const NEXT: &str = "a pool that goes on is wedged, or its permissions forbid that it learns of a \
     pause; pause it again to look again, and see `jobq workers`";

/// Pause a queue: no pool starts its jobs until `jobq resume`
///
/// Running attempts continue. Jobs taken but not started go back to the queue. Exits with 3 while
/// pools may still take jobs, and with 4 if there is no such queue.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
    /// Reason, visible to others, of at most 500 characters
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    /// Also pause a queue that does not exist yet: pools that consume it later take none of its
    /// jobs
    #[arg(long)]
    in_advance: bool,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    if !arguments.in_advance && !exists(&client, &arguments.queue).await? {
        return Err(missing(&arguments.queue));
    }
    let paused = options.admin(&client).pause(&arguments.queue, &arguments.why).await?;
    let document = Explained::new(&paused, "still_taking", &paused.still_taking);
    output.answer(document, || {
        format!("queue {} is paused; pools that stopped: {}", paused.queue, paused.stopped.len())
    })?;
    if let Some(text) = text::still_taking(&paused.still_taking) {
        output.error(&format!("{text}; {NEXT}"));
    }
    Ok(end(&paused.still_taking))
}

/// The end of a pause that left so many pools at work.
fn end(still_taking: &Figure<u32>) -> End {
    if *still_taking == 0 { End::Done } else { End::Partly }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_done_when_certainly_nobody_takes_jobs() {
        for (still_taking, expected) in [
            (Figure::Known(0), End::Done),
            (Figure::Known(1), End::Partly),
            (Figure::unknown("no leader"), End::Partly),
        ] {
            assert_eq!(end(&still_taking), expected);
            assert_eq!(text::still_taking(&still_taking).is_none(), expected == End::Done);
        }
    }
}
