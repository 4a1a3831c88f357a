use jobq::{BoxError, job};

#[job]
async fn save(ref value: String) -> Result<(), BoxError> {
    Err(value.as_str().into())
}

fn main() {}
