use jobq::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(topic = "user.*")]
struct Changed<'a, T: Clone>(&'a T)
where
    T: Copy;

fn is_event<E: Event>() {}

fn main() {
    is_event::<Changed<'static, u8>>();
}
