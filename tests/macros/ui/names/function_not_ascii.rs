use jobq::{BoxError, job};

#[job]
async fn grüßen() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let _ = Grüßen {};
}
