use jobq::job;

type Saved = Option<u64>;

#[job]
fn save(value: u64) -> Saved {
    Some(value)
}

fn main() {}
