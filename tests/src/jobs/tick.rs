//! A job that schedules enqueue, and that notes when it was due.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jobq::{BoxError, JobContext, State, job};

/// Appends its schedule, the second at which it was due, its id, and the milliseconds by which it is late.
///
/// # Errors
///
/// A file that cannot be written.
#[job(queue = "ticks", retries = 20, delay = "1s")]
pub async fn tick(ctx: JobContext, file: State<Arc<File>>) -> Result<(), BoxError> {
    let schedule = ctx.schedule().ok_or("no schedule")?;
    let due = ctx.due().duration_since(UNIX_EPOCH)?.as_secs();
    let late = SystemTime::now().duration_since(ctx.due()).unwrap_or_default().as_millis();
    // One write, so that the lines of several processes do not mix.
    let line = format!("{schedule} {due} {} {late} {}\n", ctx.id(), ctx.missed());
    Ok((&**file).write_all(line.as_bytes())?)
}
