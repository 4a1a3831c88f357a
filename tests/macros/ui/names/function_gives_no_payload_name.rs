use jobq::{BoxError, job};

#[job]
async fn self_() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    drop(self_());
}
