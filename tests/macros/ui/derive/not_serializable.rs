use jobq::Job;

#[derive(Job)]
struct ResizeImage {
    image: u64,
}

fn is_job<J: Job>() {}

fn main() {
    is_job::<ResizeImage>();
}
