use jobq::{BoxError, job};

#[job]
async fn save(value: std::cell::Cell<u8>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
