use jobq::job;

#[job]
async fn save(value: u64) -> std::option::Option<Vec<u64>> {
    Some(vec![value])
}

fn main() {}
