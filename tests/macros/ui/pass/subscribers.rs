//! A subscriber needs nothing but jobq and its event's type.

use jobq::{BoxError, JobContext, State, job};

#[job(on = "user.*", retries = 3, delay = "30s")]
async fn welcome(
    ctx: JobContext,
    /// Who is new.
    event: String,
    letter: State<&'static str>,
) -> Result<(), BoxError> {
    Err(format!("{} {event} {}", *letter, ctx.attempt()).into())
}

#[job(on = ["#", "user.created.*"])]
fn count(#[payload] _event: u64) -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let _ = Welcome { event: "ann".into() };
    let _ = Count { _event: 7 };
}
