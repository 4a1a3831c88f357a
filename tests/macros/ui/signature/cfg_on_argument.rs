use jobq::{BoxError, job};

#[job]
async fn save(#[cfg(unix)] mode: u32, value: u32) -> Result<(), BoxError> {
    Err((mode + value).to_string().into())
}

fn main() {}
