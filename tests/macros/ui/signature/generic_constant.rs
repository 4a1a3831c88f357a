use jobq::{BoxError, job};

#[job]
async fn save<const N: usize>(value: [u8; N]) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {}
