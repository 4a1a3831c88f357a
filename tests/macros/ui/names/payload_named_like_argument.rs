use jobq::{BoxError, job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Letter;

#[job]
async fn letter(letter: Letter) -> Result<(), BoxError> {
    drop(letter);
    Ok(())
}

fn main() {}
