use jobq::{BoxError, State, job};
use serde::{Deserialize, Serialize};

#[job]
async fn self_() -> Result<(), BoxError> {
    Ok(())
}

#[job]
async fn grüßen() -> Result<(), BoxError> {
    Ok(())
}

#[job(name = "")]
async fn name_empty() -> Result<(), BoxError> {
    Ok(())
}

#[job(
    name = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)]
async fn name_too_long() -> Result<(), BoxError> {
    Ok(())
}

#[job(name = "mail..welcome")]
async fn name_with_empty_word() -> Result<(), BoxError> {
    Ok(())
}

#[job(name = "send welcome")]
async fn name_with_space() -> Result<(), BoxError> {
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Letter;

#[job]
async fn letter(letter: Letter) -> Result<(), BoxError> {
    drop(letter);
    Ok(())
}

#[job]
async fn state(total: State<u64>) -> Result<(), BoxError> {
    Err(total.to_string().into())
}

#[job(queue = "mail:fast")]
async fn queue_with_colon() -> Result<(), BoxError> {
    Ok(())
}

// The types are there all the same.
#[allow(unused_imports)]
mod made {
    use super::{NameWithEmptyWord, NameWithSpace, QueueWithColon};
}

fn main() {
    drop(self_());
    let _ = Grüßen {};
    let _ = NameEmpty {};
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<NameEmpty>();
    drop(name_empty());
}
