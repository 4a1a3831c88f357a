use jobq::{BoxError, job};

#[job]
fn save(value: u8, _: ...) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

fn main() {}
