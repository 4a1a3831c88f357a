use jobq::{BoxError, job};

struct State<T>(T);

#[job]
async fn save(total: State<u8>) -> Result<(), BoxError> {
    Err(total.0.to_string().into())
}

fn main() {}
