use jobq::{BoxError, job};

#[job]
async fn save(value: &std::path::Path) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
