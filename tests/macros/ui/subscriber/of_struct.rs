use jobq::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(on = ["user.created", "user.*d"])]
struct Welcome(u64);

fn is_job<J: Job>() {}

fn main() {
    is_job::<Welcome>();
}
