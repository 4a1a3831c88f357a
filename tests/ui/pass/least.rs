//! A crate that depends on nothing but jobq.

use jobq::{BoxError, job};

#[job]
async fn cleanup() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let Cleanup {} = Cleanup {};
}
