use jobq::{Attempt, BoxError, Client, Event, JobContext, State, job};
use serde::{Deserialize, Serialize};

const LIMIT: &str = "30s";

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

trait Mailer: Send + Sync {}

#[job]
async fn attempt_as_argument(order: u64, attempt: Attempt) -> Result<(), BoxError> {
    drop(attempt);
    Err(order.to_string().into())
}

#[job]
async fn client_by_reference(order: u64, client: &Client) -> Result<(), BoxError> {
    Err(format!("{order} {client:?}").into())
}

#[job(retries = 3 queue = "mail")]
async fn comma_missing() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = LIMIT, delay = LIMIT, expires = std::time::Duration::MAX)]
async fn constant_duration() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential(LIMIT, max = LIMIT))]
async fn constant_in_exponential() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = [LIMIT, "1m"])]
async fn constant_in_list() -> Result<(), BoxError> {
    Ok(())
}

#[job(on = UserCreated::TOPIC)]
async fn constant_topic(event: UserCreated) -> Result<(), BoxError> {
    Err(event.user_id.to_string().into())
}

#[job]
async fn state_changed(by: u64, mut total: State<u64>) -> Result<(), BoxError> {
    let _: &mut State<u64> = &mut total;
    Err(by.to_string().into())
}

#[job]
async fn state_taken_apart(order: u64, State(limit): State<u64>) -> Result<(), BoxError> {
    drop(limit);
    Err(order.to_string().into())
}

#[job]
async fn state_without_size(order: u64, mailer: State<dyn Mailer>) -> Result<(), BoxError> {
    drop(mailer);
    Err(order.to_string().into())
}

#[job]
async fn remind(user_id: u64, ctx: JobContext) -> Result<(), BoxError> {
    Err(format!("{user_id} {}", ctx.attempt()).into())
}

fn calls(client: &Client, all: &[Remind]) {
    drop(client.enqueue_all(all.iter()));
}

fn main() {}
