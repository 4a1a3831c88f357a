use jobq::{BoxError, job};

#[job(cron = ["0 9 * * *", "30 17 * * *"], zone = "Europe/Berlin", missed = "skip")]
async fn report() -> Result<(), BoxError> {
    Ok(())
}

#[job(every = "10m", jitter = "1m")]
async fn sample(sensor: Option<u64>, #[serde(default)] all: bool) -> Result<(), BoxError> {
    Ok(drop((sensor, all)))
}

fn main() {}
