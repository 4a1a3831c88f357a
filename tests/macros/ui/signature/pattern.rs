use jobq::{BoxError, job};

#[job]
async fn save((x, y): (u8, u8)) -> Result<(), BoxError> {
    Err((x + y).to_string().into())
}

fn main() {}
