use jobq::{BoxError, job};

#[job]
async fn save(value: std::collections::HashMap<String, (u8, [&[u8]; 2])>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
