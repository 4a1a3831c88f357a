use jobq::{BoxError, job};

#[job]
async fn save<T: Send>(value: T) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {}
