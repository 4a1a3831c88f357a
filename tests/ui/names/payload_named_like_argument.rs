use jobq::{BoxError, job};

#[job]
async fn letter(letter: Letter) -> Result<(), BoxError> {
    drop(letter);
    Ok(())
}

fn main() {}
