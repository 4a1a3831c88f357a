use jobq::job;

#[job]
async fn save(value: u64) -> Result<(), u64> {
    Err(value)
}

fn main() {}
