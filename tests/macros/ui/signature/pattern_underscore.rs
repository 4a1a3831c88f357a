use jobq::{BoxError, job};

#[job]
async fn save(_: u8) -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
