use jobq::{BoxError, job};

#[job]
async fn one_name_twice(value: u8, value: u8) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

fn main() {}
