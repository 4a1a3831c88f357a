use clap::Args;
use jobq::admin::Queues;
use serde_json::json;

use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;

/// Enqueue the job of a schedule once, now
///
/// The pool that holds the schedules enqueues it; if no pool runs, the first one that starts.
/// This works even while the schedule is paused. Prints the id of the job.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(super) target: Target,
}

/// Pause a schedule: its times pass without a job until `jobq schedules resume`
#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(super) target: Target,
}

/// Resume a paused schedule
///
/// No job is enqueued for the times that passed during the pause.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(super) target: Target,
}

/// Remove a schedule
///
/// A schedule in the code of worker pools cannot be removed. It goes half an hour after the last of
/// these pools.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(super) target: Target,
}

/// The schedule of a command.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Name of the schedule
    schedule: String,
    /// Queue of the schedule, if several queues have one of this name, or if no pool runs and
    /// nothing else lists the queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

impl Target {
    fn queues(&self) -> Queues {
        self.queue.as_ref().map_or(Queues::All, Queues::one)
    }
}

pub(super) async fn run(target: Target, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let id = options.admin(&client).run_schedule(&target.schedule, target.queues()).await?;
    let document = json!({"schedule": target.schedule, "id": id});
    output.answer(document, || format!("schedule {}: job {id} requested", target.schedule))?;
    Ok(End::Done)
}

pub(super) async fn pause(target: Target, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    options.admin(&client).pause_schedule(&target.schedule, target.queues()).await?;
    changed(&target, "paused", output)
}

pub(super) async fn resume(target: Target, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    options.admin(&client).resume_schedule(&target.schedule, target.queues()).await?;
    changed(&target, "resumed", output)
}

pub(super) async fn remove(target: Target, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    options.admin(&client).remove_schedule(&target.schedule, target.queues()).await?;
    changed(&target, "removed", output)
}

fn changed(target: &Target, change: &str, output: Output) -> Ended {
    let document = json!({"schedule": target.schedule, "change": change});
    output.answer(document, || format!("schedule {} {change}", target.schedule))?;
    Ok(End::Done)
}
