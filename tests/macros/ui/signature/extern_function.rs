use jobq::{BoxError, job};

#[job]
extern "C" fn save(value: String) -> Result<(), BoxError> {
    Err(value.into())
}

fn main() {}
