use jobq::{BoxError, JobContext, job};

#[job(cron = "0 25 * * *")]
async fn hour() -> Result<(), BoxError> {
    Ok(())
}

#[job(cron = ["0 3 * * *", "0 3 * * *", "0 0 30 2 *"])]
async fn several() -> Result<(), BoxError> {
    Ok(())
}

#[job(cron = [])]
async fn none() -> Result<(), BoxError> {
    Ok(())
}

#[job(cron = 5)]
async fn number() -> Result<(), BoxError> {
    Ok(())
}

#[job(every = "500ms")]
async fn too_often() -> Result<(), BoxError> {
    Ok(())
}

#[job(cron = "@daily", every = "1d")]
async fn both() -> Result<(), BoxError> {
    Ok(())
}

#[job(cron = "@daily", zone = "Europe Berlin", missed = "skipp")]
async fn words() -> Result<(), BoxError> {
    Ok(())
}

#[job(every = "1d", zone = "Europe/Berlin", missed = "never")]
async fn period() -> Result<(), BoxError> {
    Ok(())
}

#[job(zone = "Europe/Berlin", jitter = "5m", missed = "one")]
async fn no_times() -> Result<(), BoxError> {
    Ok(())
}

#[job(every = "10m")]
async fn arguments(shop: u64, ctx: JobContext) -> Result<(), BoxError> {
    Ok(drop((shop, ctx)))
}

#[job(on = "user.*", every = "10m")]
async fn event(user: Option<String>) -> Result<(), BoxError> {
    Ok(drop(user))
}

#[job(timezone = "Europe/Berlin")]
async fn timezone() -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
