use jobq::{BoxError, job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct UserCreated(u64);

#[job(on = "user.created")]
async fn user_created(event: UserCreated) -> Result<(), BoxError> {
    Err(event.0.to_string().into())
}

fn main() {}
