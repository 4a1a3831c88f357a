//! An event may be of any shape, and published by who only writes it.

use jobq::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(topic = "user.created")]
struct UserCreated<'a> {
    name: &'a str,
}

#[derive(Serialize, Event)]
#[event(topic = "order.changed")]
enum OrderChanged {
    Paid { cents: u64 },
}

#[derive(Serialize, Event)]
#[event(topic = "page.read")]
struct PageRead<T, const N: usize>([T; 0])
where
    T: Copy;

fn topic<E: Event>(_: &E) -> &'static str {
    E::TOPIC
}

fn main() {
    assert_eq!(topic(&UserCreated { name: "ann" }), "user.created");
    assert_eq!(topic(&OrderChanged::Paid { cents: 100 }), "order.changed");
    assert_eq!(topic(&PageRead::<u8, 2>([])), "page.read");
}
