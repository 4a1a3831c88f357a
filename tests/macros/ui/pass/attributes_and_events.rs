//! What the macros accept.

use jobq::{BoxError, Client, Event, Job, JobContext, JobOptions, State, WorkerPool, job};
use serde::{Deserialize, Serialize};

// The attribute of functions and that of structs have one name. `unchecked` takes no value.

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "images", unchecked)]
struct ResizeImage {
    image: u64,
}

#[job(unchecked, queue = "images", retries = 3)]
fn rotate_image(image: u64) -> Result<(), BoxError> {
    Err(image.to_string().into())
}

// A plain `fn` handles jobs as an `async fn` does.

fn resize(ctx: JobContext, job: ResizeImage, least: State<u64>) -> Result<(), BoxError> {
    assert!(job.image >= *least && ctx.attempt() > 0);
    Ok(())
}

#[allow(dead_code)] // it is compiled
fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).handle(resize).state(7u64)
}

// An event may be of any shape, and published by who only writes it.

#[derive(Serialize, Event)]
#[event(topic = "user.created")]
struct UserCreated<'a> {
    name: &'a str,
}

#[derive(Serialize, Event)]
#[event(topic = "order.changed")]
enum OrderChanged {
    Paid { cents: u64 },
}

#[derive(Serialize, Event)]
#[event(topic = "page.read")]
struct PageRead<T, const N: usize>([T; 0])
where
    T: Copy;

fn topic<E: Event>(_: &E) -> &'static str {
    E::TOPIC
}

fn main() {
    assert_eq!(jobq::queue_of::<ResizeImage>(), jobq::queue_of::<RotateImage>());
    let options = JobOptions::new().queue("images").unchecked();
    assert_eq!(ResizeImage::OPTIONS, options);
    assert_eq!(RotateImage::OPTIONS, options.retries(3));
    assert_eq!(ResizeImage { image: 7 }.image, RotateImage { image: 7 }.image);
    assert_eq!(topic(&UserCreated { name: "ann" }), "user.created");
    assert_eq!(topic(&OrderChanged::Paid { cents: 100 }), "order.changed");
    assert_eq!(topic(&PageRead::<u8, 2>([])), "page.read");
}
