use jobq::{BoxError, job};

struct UserCreated(u64);

#[job(on = "user.created")]
async fn welcome(event: UserCreated) -> Result<(), BoxError> {
    Err(event.0.to_string().into())
}

fn main() {
    let _ = |event| Welcome { event };
}
