use jobq::{BoxError, job};

#[job]
async fn save(#[payload] #[payload] value: u8) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

fn main() {}
