#[jobq::job]
mod mail {}

fn main() {}
