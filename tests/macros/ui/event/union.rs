use jobq::Event;

#[derive(Event)]
#[event(topic = "user.created")]
union UserCreated {
    small: u8,
    large: u64,
}

fn main() {}
