use jobq::{BoxError, State, job};

#[job]
async fn state(total: State<u64>) -> Result<(), BoxError> {
    Err(total.to_string().into())
}

fn main() {}
