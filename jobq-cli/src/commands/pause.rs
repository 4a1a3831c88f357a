use std::collections::BTreeMap;

use clap::Args;
use jobq::admin::{Figure, Paused};
use serde::Serialize;

use super::queues::exists;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;

/// Pause a queue: no pool starts its jobs until `jobq resume`
///
/// Running attempts continue. Jobs taken but not started go back to the queue. Exits with 3 while
/// pools may still take jobs.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
    /// Reason, visible to others
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    #[derive(Serialize)]
    struct Document<'p> {
        #[serde(flatten)]
        paused: &'p Paused,
        unknown: BTreeMap<&'static str, &'p str>,
    }

    let client = options.client().await?;
    let paused = options.admin(&client).pause(&arguments.queue, &arguments.why).await?;
    if output.is_json() {
        let unknown = paused.still_taking.why().map(|why| ("still_taking", why));
        output.document(Document { paused: &paused, unknown: unknown.into_iter().collect() })?;
    } else {
        output.line(&format!(
            "queue {} is paused; pools that stopped: {}",
            paused.queue,
            paused.stopped.len()
        ))?;
    }
    if let Some(warning) = warning(&paused.still_taking) {
        output.error(&warning);
    } else if paused.stopped.is_empty() && !exists(&client, &arguments.queue).await? {
        output
            .note("there is no such queue yet: pools that work on it later take none of its jobs");
    }
    Ok(end(&paused.still_taking))
}

/// The end of a pause that left so many pools at work.
fn end(still_taking: &Figure<u32>) -> End {
    if *still_taking == 0 { End::Done } else { End::Partly }
}

fn warning(still_taking: &Figure<u32>) -> Option<String> {
    let next = "pause it again to look again, and see `jobq workers`";
    match still_taking {
        Figure::Known(0) => None,
        Figure::Known(count) => Some(format!(
            "pools or consumers that may still take its jobs: {count}; they are wedged, or their \
             permissions forbid that they learn of a pause; {next}"
        )),
        Figure::Unknown(why) => {
            Some(format!("whether pools still take its jobs is unknown: {why}; {next}"))
        }
    }
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
            assert_eq!(warning(&still_taking).is_none(), expected == End::Done);
        }
    }
}
