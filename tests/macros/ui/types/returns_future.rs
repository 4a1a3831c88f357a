use jobq::{BoxError, job};

#[job]
fn save(value: u64) -> impl Future<Output = Result<(), BoxError>> {
    async move { Err(value.to_string().into()) }
}

fn main() {}
