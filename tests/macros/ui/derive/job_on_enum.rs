#[jobq::job]
pub enum Size {
    Small,
}

fn main() {
    let _ = Size::Small;
}
