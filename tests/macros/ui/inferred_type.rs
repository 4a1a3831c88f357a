use jobq::{BoxError, job};

#[job]
async fn inferred(value: _) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Inferred { value };
}
