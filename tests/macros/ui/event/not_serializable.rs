use jobq::Event;

#[derive(Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

fn is_event<E: Event>() {}

fn main() {
    is_event::<UserCreated>();
}
