use std::cell::Cell;
use std::net::TcpStream;
use std::sync::Arc;

use jobq::{BoxError, Client, Event, Job, WorkerPool, job};
use serde::{Deserialize, Serialize};

struct UserCreated(u64);

#[job(on = "user.created")]
async fn subscribed_not_serializable(event: UserCreated) -> Result<(), BoxError> {
    Err(event.0.to_string().into())
}

#[job]
async fn payload_not_serializable(value: TcpStream) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[derive(Job)]
struct JobNotSerializable(u64);

#[derive(Event)]
#[event(topic = "user.created")]
struct OutcomeNotSerializable(u64);

#[derive(Serialize, Deserialize)]
struct NoJob(u64);

#[job]
async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
    Err(user_id.to_string().into())
}

fn enqueue(client: &Client) {
    drop(client.enqueue(send_welcome(7)));
    drop(client.enqueue(NoJob(7)));
}

struct State<T>(T);

#[job]
async fn foreign_state(total: State<u8>) -> Result<(), BoxError> {
    Err(total.0.to_string().into())
}

#[job]
async fn state_forgotten(order: u64, db: Arc<UserCreated>) -> Result<(), BoxError> {
    let _ = db;
    Err(order.to_string().into())
}

#[job]
async fn future_not_send(value: u64) -> Result<(), BoxError> {
    let value = std::rc::Rc::new(value);
    std::future::ready(()).await;
    Err(value.to_string().into())
}

#[job]
async fn payload_not_sync(value: Cell<u8>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[derive(Serialize, Deserialize, Job)]
struct ResizeImage(u64);

async fn of_no_job(job: String) -> Result<(), BoxError> {
    Err(job.into())
}

async fn of_no_result(job: ResizeImage) -> u64 {
    job.0
}

async fn of_a_reference(job: &ResizeImage) -> Result<(), BoxError> {
    Err(job.0.to_string().into())
}

async fn of_nothing() -> Result<(), BoxError> {
    Ok(())
}

fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client)
        .handle(of_no_job)
        .handle(of_no_result)
        .handle(of_a_reference)
        .handle(of_nothing)
        .handle(send_welcome)
        .register::<ResizeImage>()
}

type Saved = Option<u64>;

#[job]
fn returns_alias_of_no_result(value: u64) -> Saved {
    Some(value)
}

#[job]
fn returns_future(value: u64) -> impl Future<Output = Result<(), BoxError>> {
    async move { Err(value.to_string().into()) }
}

#[job]
async fn returns_number(value: u64) -> u64 {
    value
}

#[job]
async fn returns_option(value: u64) -> std::option::Option<Vec<u64>> {
    Some(vec![value])
}

#[job]
async fn returns_result_without_error(value: u64) -> Result<(), u64> {
    Err(value)
}

fn is_job<J: Job>() {}

fn is_event<E: Event>() {}

fn main() {
    let _ = |event| SubscribedNotSerializable { event };
    let _ = |value| PayloadNotSerializable { value };
    let _ = |value| PayloadNotSync { value };
    is_job::<JobNotSerializable>();
    is_event::<OutcomeNotSerializable>();
}
