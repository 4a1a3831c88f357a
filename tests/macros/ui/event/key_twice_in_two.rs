use jobq::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(topic = "user.created")]
#[event(topic = "user.new")]
struct UserCreated {
    user_id: u64,
}

fn is_event<E: Event>() {}

fn main() {
    is_event::<UserCreated>();
}
