use jobq::{Job, job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
enum Enumeration {
    Small,
    Large,
}

fn is_job<J: Job>() {}

#[derive(Serialize, Deserialize, Job)]
struct Generic<T> {
    image: T,
}

#[derive(Serialize, Deserialize, Job)]
struct GenericWhere<T>(T)
where
    T: Clone;

#[jobq::job(queue = "images")]
#[derive(Serialize, Deserialize, Job)]
struct JobAboveDerive;

#[jobq::job]
pub enum Size {
    Small,
}

#[jobq::job]
mod mail {}

#[job(queue = "images")]
#[derive(Serialize, Deserialize)]
struct JobOnStruct;

#[derive(Serialize, Deserialize, Job)]
struct Lifetime<'a> {
    image: &'a str,
}

#[derive(Serialize, Deserialize, Job)]
#[job(retries = 0, delay = ["10s"])]
struct ListLongerThanRetries;

#[derive(Serialize, Deserialize, Job)]
#[job = "images"]
struct NoParentheses;

#[derive(Serialize, Deserialize, Job)]
#[job(payload = "Resize", queue = "images")]
struct PayloadKey;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "images")]
#[job(retries = 1, queue = "pictures")]
struct RepeatedKey;

#[derive(Job)]
union Union {
    small: u8,
    large: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(quue = "images")]
struct UnknownKey;

#[derive(Serialize, Deserialize, Job)]
#[job(timeout = "soon")]
struct WrongDuration;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "../images")]
struct WrongQueue;

fn main() {
    is_job::<Enumeration>();
    is_job::<Generic<u64>>();
    is_job::<GenericWhere<u8>>();
    let _ = JobAboveDerive {};
    let _ = Size::Small;
    let _ = JobOnStruct {};
    is_job::<ListLongerThanRetries>();
    is_job::<NoParentheses>();
    is_job::<PayloadKey>();
    is_job::<RepeatedKey>();
    is_job::<UnknownKey>();
    is_job::<WrongDuration>();
    is_job::<WrongQueue>();
}
