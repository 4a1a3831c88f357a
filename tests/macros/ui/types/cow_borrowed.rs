use jobq::{BoxError, job};

#[job]
async fn save(value: std::borrow::Cow<'_, str>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
