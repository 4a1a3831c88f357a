use jobq::{BoxError, job};
use serde_json::Value;

#[job(priority = "urgent")]
async fn unknown() -> Result<(), BoxError> {
    Ok(())
}

#[job(priority = "hihg")]
async fn misspelt() -> Result<(), BoxError> {
    Ok(())
}

#[job(priorities = "low")]
async fn valued() -> Result<(), BoxError> {
    Ok(())
}

#[job(priority = "high", on = "user.*")]
async fn of_events(_event: Value) -> Result<(), BoxError> {
    Ok(())
}

#[job(priorities, on = "user.*")]
async fn of_any_event(_event: Value) -> Result<(), BoxError> {
    Ok(())
}

#[job(level = 1)]
async fn level() -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
