use jobq::{BoxError, job};

#[job]
const fn save(_value: u8) -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
