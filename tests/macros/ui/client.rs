use std::time::Duration;

use jobq::{BoxError, Client, Event, JobContext, job};
use serde::Serialize;

#[job]
async fn client_as_argument(user_id: u64, client: Client) -> Result<(), BoxError> {
    client.enqueue(Remind { user_id }).await?;
    Ok(())
}

#[job]
async fn remind(user_id: u64, ctx: JobContext) -> Result<(), BoxError> {
    Err(format!("{user_id} {}", ctx.attempt()).into())
}

#[derive(Serialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

fn calls(client: &Client, event: UserCreated) {
    drop(client.enqueue(Remind { user_id: 7 }).delay(30));
    drop(client.enqueue(Remind { user_id: 7 }).delay("30s".to_owned()));
    drop(client.enqueue(&Remind { user_id: 7 }));
    drop(client.publish(&event));
    drop(client.publish_event(event));
    drop(Client::builder("sqlite::memory:").timeout(30));
    drop(jobq::retry_in(90, "busy"));
    drop(jobq::snooze(&Duration::ZERO));
}

fn main() {}
