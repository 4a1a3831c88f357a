use jobq::job;

#[job]
async fn save(value: u64) -> u64 {
    value
}

fn main() {}
