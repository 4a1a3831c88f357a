//! The key that takes no value, on functions and structs, first and last.

use jobq::{BoxError, Job, JobOptions, job};
use serde::{Deserialize, Serialize};

#[job(unchecked, retries = 3)]
async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "images", unchecked)]
struct ResizeImage {
    image: u64,
}

fn main() {
    assert_eq!(SendWelcome::OPTIONS, JobOptions::new().retries(3).unchecked());
    assert_eq!(ResizeImage::OPTIONS, JobOptions::new().queue("images").unchecked());
    assert_eq!(ResizeImage { image: 7 }.image, SendWelcome { user_id: 7 }.user_id);
}
