use jobq::{BoxError, job};

#[job]
async fn save(value: _) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
