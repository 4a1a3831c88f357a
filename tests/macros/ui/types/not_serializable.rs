use jobq::{BoxError, job};

#[job]
async fn save(value: std::net::TcpStream) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

fn main() {
    let _ = |value| Save { value };
}
