use jobq::{BoxError, job};

#[job]
async fn save(value: u64) -> Result<(), BoxError> {
    let value = std::rc::Rc::new(value);
    std::future::ready(()).await;
    Err(value.to_string().into())
}

fn main() {}
