//! `jobq failed retry`, `discard` and `purge`: operations on all failed jobs that match.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use clap::Args;
use jobq::admin::text;
use jobq::admin::{Done, End as OperationEnd, Filter, Operation, Running};
use jobq::{Client, FailedJobs, JobId};
use serde::Serialize;
use tokio::task::JoinHandle;

use super::nothing_found;
use super::outcome::{end, missing};
use super::rate::rate;
use crate::end::{End, Ended, Problem};
use crate::filter::FilterOptions;
use crate::options::{Options, period, with};
use crate::output::Output;
use crate::output::confirm::confirm;
use crate::output::progress::Bar;

/// The failed jobs that an operation is about.
#[derive(Debug, Args)]
struct Which {
    /// Name of the queue
    queue: String,
    /// Ids of the jobs
    #[arg(value_name = "ID")]
    named: Vec<JobId>,
    /// All failed jobs of the queue
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterOptions,
}

/// The options of every operation.
#[derive(Debug, Args)]
struct How {
    /// Only count the matching jobs
    #[arg(long)]
    dry_run: bool,
    /// Maximum average rate, such as 10/s. Jobs are processed in batches of up to ten seconds'
    /// worth
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
}

/// Retry failed jobs: return them to their queue, with fresh attempts
///
/// Ctrl-C finishes the work already begun, reports what was done and exits. A second Ctrl-C exits
/// at once.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: How,
    /// Retry this many jobs first, each with one attempt, and the rest only if all of them complete
    #[arg(long, value_name = "NUMBER")]
    canary: Option<u32>,
    /// Time to wait for the outcomes of the canaries
    #[arg(long, value_name = "DURATION", value_parser = period, requires = "canary")]
    canary_patience: Option<Duration>,
    /// Stop as soon as a retried job fails again; requires --rate
    #[arg(long, requires = "rate")]
    stop_on_failure: bool,
}

/// Delete failed jobs
#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: How,
}

/// Delete all failed jobs of a queue
#[derive(Debug, Args)]
pub(crate) struct Purge {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    how: How,
}

/// The result of an operation, as a document.
#[derive(Serialize)]
struct Document<'a> {
    queue: &'a str,
    action: &'static str,
    filter: String,
    dry_run: bool,
    #[serde(flatten)]
    done: &'a Done,
}

/// An operation of the command.
struct Doing {
    client: Client,
    failed: FailedJobs,
    filter: Filter,
    /// `retry` or `discard`, and what it does with jobs.
    action: (&'static str, &'static str),
    dry_run: bool,
    /// The number of ids, each of which must be found.
    named: u64,
}

pub(crate) async fn retry(arguments: Retry, options: &Options, output: Output) -> Ended {
    let (filter, named) = arguments.which.filter()?;
    let client = options.client().await?;
    let failed = client.failed(&arguments.which.queue);
    let mut operation = arguments.how.of(failed.retry_where(filter.clone()), options);
    operation = with(operation, arguments.canary, Operation::canary);
    operation = with(operation, arguments.canary_patience, Operation::canary_patience);
    if arguments.stop_on_failure {
        operation = operation.stop_on_failure();
    }
    let (action, dry_run) = (("retry", "retried"), arguments.how.dry_run);
    Doing { client, failed, filter, action, dry_run, named }.run(operation, output).await
}

pub(crate) async fn discard(arguments: Discard, options: &Options, output: Output) -> Ended {
    let Discard { which, how } = arguments;
    delete(&which.queue, which.filter()?, &how, options, output).await
}

pub(crate) async fn purge(arguments: Purge, options: &Options, output: Output) -> Ended {
    let Purge { queue, how } = arguments;
    delete(&queue, (Filter::new(), 0), &how, options, output).await
}

/// Deletes jobs. A question that is asked before is about those that have failed by then, and so is
/// what follows.
async fn delete(
    queue: &str,
    (filter, named): (Filter, u64),
    how: &How,
    options: &Options,
    output: Output,
) -> Ended {
    let client = options.client().await?;
    let (failed, action, dry_run) = (client.failed(queue), ("discard", "deleted"), how.dry_run);
    let doing = Doing { client, failed, filter, action, dry_run, named };
    let discard = || doing.failed.discard_where(doing.filter.clone());
    let mut operation = how.of(discard(), options);
    if !dry_run && !options.yes {
        let counted = discard().dry_run().await?;
        if counted.matched == 0 {
            return doing.told(&counted, output).await;
        }
        let least = if matches!(counted.end, OperationEnd::Finished) { "" } else { "at least " };
        let jobs = format!("{least}{} failed jobs of queue `{queue}`", counted.matched);
        if !confirm(options.yes, &format!("delete {jobs} ({})", doing.filter))? {
            output.note("nothing was deleted");
            return Ok(End::Partly);
        }
        operation = with(operation, counted.extent, Operation::within);
    }
    doing.run(operation, output).await
}

impl Which {
    /// The filter, and how many jobs it names. To act on all, `--all` must be given.
    fn filter(&self) -> Result<(Filter, u64), Problem> {
        let mut filter = self.filter.filter()?;
        if !self.named.is_empty() {
            filter = filter.ids(self.named.iter().copied());
        }
        if filter.is_empty() && !self.all {
            return Err(Problem::Usage(format!(
                "no failed jobs of queue `{}` are selected; give ids, conditions such as `--error \
                 TEXT`, or `--all`",
                self.queue
            )));
        }
        Ok((filter, self.named.iter().collect::<BTreeSet<_>>().len() as u64))
    }
}

impl How {
    fn of(&self, operation: Operation, options: &Options) -> Operation {
        let operation = operation.by(options.actor());
        let operation = if self.dry_run { operation.dry_run() } else { operation };
        with(operation, self.rate, Operation::rate)
    }
}

impl Doing {
    async fn run(self, operation: Operation, output: Output) -> Ended {
        // Heard before anything is done.
        let interrupted = interrupt().await;
        let Some(done) = watched(operation.start()?, interrupted, output).await? else {
            let (queue, (_, verb)) = (self.failed.queue(), self.action);
            output.error(&format!(
                "interrupted again: it is unknown which jobs were {verb}; see `jobq failed list \
                 {queue}`"
            ));
            return Ok(End::Partly);
        };
        self.told(&done, output).await
    }

    /// Tells what was done.
    async fn told(&self, done: &Done, output: Output) -> Ended {
        let queue = self.failed.queue();
        let (filter, (action, _)) = (self.filter.to_string(), self.action);
        let document = Document { queue, action, filter, dry_run: self.dry_run, done };
        output.answer(document, || self.sentence(done.matched, done.settled))?;
        for (id, error) in &done.refused {
            output.error(&format!("job {id} stays failed: {error}"));
        }
        output.notes(text::remarks(done));
        if let Some((end, missing)) = missing(self.named, done.matched, &done.end) {
            output.error(&format!("queue `{queue}` {missing}"));
            return Ok(end);
        }
        match end(&done.end, done.refused.len(), done.unknown) {
            End::Done if done.matched == 0 => nothing_found(&self.client, queue).await,
            end => Ok(end),
        }
    }

    fn sentence(&self, matched: u64, settled: u64) -> String {
        let (queue, (_, verb)) = (self.failed.queue(), self.action);
        if self.dry_run {
            return format!("{matched} failed jobs of queue {queue} would be {verb}");
        }
        format!("{settled} of {matched} failed jobs of queue {queue} {verb}")
    }
}

/// Hears the next Ctrl-C from now on.
async fn interrupt() -> JoinHandle<io::Result<()>> {
    let heard = tokio::spawn(tokio::signal::ctrl_c());
    tokio::task::yield_now().await;
    heard
}

/// Shows the progress of an operation until its end. Ctrl-C cancels it, and a second one ends the
/// command at once: `None`.
async fn watched(
    running: Running,
    mut interrupted: JoinHandle<io::Result<()>>,
    output: Output,
) -> Result<Option<Done>, Problem> {
    let bar = Bar::new(output);
    let mut progress = running.progress();
    let mut is_cancelled = false;
    loop {
        bar.show(&progress.borrow_and_update());
        tokio::select! {
            changed = progress.changed() => if changed.is_err() { break },
            _ = &mut interrupted => {
                running.cancel();
                (interrupted, is_cancelled) = (interrupt().await, true);
                bar.say("cancelled; what it has begun is finished");
                break;
            }
        }
    }
    let done = tokio::select! {
        done = running.finish() => Some(done),
        _ = interrupted, if is_cancelled => None,
    };
    bar.clear();
    Ok(done.transpose()?)
}
