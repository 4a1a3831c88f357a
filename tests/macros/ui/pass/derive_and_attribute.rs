//! The attribute of functions and that of structs have one name.

use jobq::{BoxError, Job, job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "images")]
struct ResizeImage {
    image: u64,
}

#[job(queue = "images")]
fn rotate_image(image: u64) -> Result<(), BoxError> {
    Err(image.to_string().into())
}

fn main() {
    assert_eq!(jobq::queue_of::<ResizeImage>(), jobq::queue_of::<RotateImage>());
    assert_eq!(ResizeImage { image: 7 }.image, RotateImage { image: 7 }.image);
}
