use jobq::{BoxError, job};

#[job(retries = 3)]
#[job(queue = "mail")]
async fn send_welcome() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let _ = SendWelcome {};
}
