use jobq::Event;
use jobq::testing::__private::Recorded;
use jobq::testing::refute_published;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

fn test(jobs: &impl Recorded) {
    refute_published!(jobs, 0, UserCreated { .. });
    refute_published!(jobs, 0, "user.created");
}

fn main() {}
