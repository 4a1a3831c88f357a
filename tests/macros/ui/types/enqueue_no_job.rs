use jobq::Client;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct ResizeImage {
    image: u64,
}

fn enqueue(client: &Client) {
    drop(client.enqueue(ResizeImage { image: 7 }));
}

fn main() {}
