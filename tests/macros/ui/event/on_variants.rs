use jobq::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
enum UserEvent {
    #[event(topic = "user.created")]
    Created,
    Renamed,
}

fn is_event<E: Event>() {}

fn main() {
    is_event::<UserEvent>();
}
