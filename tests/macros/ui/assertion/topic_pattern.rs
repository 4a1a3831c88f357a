use jobq::Event;
use jobq::testing::__private::Recorded;
use jobq::testing::{assert_published, refute_published};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

fn test(jobs: &impl Recorded) {
    assert_published!(jobs, "user.*");
    refute_published!(jobs, "");
}

fn main() {}
