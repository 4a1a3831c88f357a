use std::sync::Arc;

use jobq::{BoxError, job};

struct Db;

#[job]
async fn ship(order: u64, db: Arc<Db>) -> Result<(), BoxError> {
    let _ = db;
    Err(order.to_string().into())
}

fn main() {}
