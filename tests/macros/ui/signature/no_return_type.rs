use jobq::job;

#[job]
async fn save(value: String) {
    drop(value);
}

fn main() {}
