use jobq::{BoxError, job};

#[job]
unsafe fn save(value: String) -> Result<(), BoxError> {
    Err(value.into())
}

fn main() {}
