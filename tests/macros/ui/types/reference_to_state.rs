use jobq::{BoxError, job};

#[job]
async fn save(total: &jobq::State<u8>) -> Result<(), BoxError> {
    Err(total.to_string().into())
}

fn main() {}
