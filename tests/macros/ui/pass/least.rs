//! No crate but jobq is named.

use jobq::{BoxError, job};

#[job]
async fn cleanup() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let Cleanup {} = Cleanup {};
}
