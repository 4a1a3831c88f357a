use jobq::Job;

#[derive(Job)]
union ResizeImage {
    small: u8,
    large: u64,
}

fn main() {}
