use jobq::{BoxError, job};

#[job]
async fn save(value: impl Into<String> + Send) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
