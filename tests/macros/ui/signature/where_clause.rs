use jobq::{BoxError, job};

#[job]
async fn save(value: String) -> Result<(), BoxError>
where
    String: Send,
{
    Err(value.into())
}

fn main() {}
