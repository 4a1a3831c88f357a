//! A job queue for Rust on RabbitMQ, and without any server on an embedded SQLite file.
//!
//! Annotate a function, spawn workers from `main`, enqueue jobs from application code:
//!
//! ```no_run
//! use jobq::{Client, WorkerPool, job};
//!
//! /// Emails a welcome letter.
//! #[job(retries = 3, delay = "30s")]
//! async fn send_welcome(user_id: u64, email: String) -> Result<(), jobq::BoxError> {
//!     println!("to {email}: welcome, number {user_id}");
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> jobq::Result<()> {
//!     let client = Client::connect("sqlite://jobs.db").await?; // or amqp://user:password@host
//!     client.enqueue(SendWelcome { user_id: 7, email: "ann@example.com".into() }).await?;
//!     WorkerPool::new(&client).register::<SendWelcome>().run().await // until SIGINT or SIGTERM
//! }
//! ```
//!
//! # The parts
//!
//! * A **job** is a unit of work: a payload and a function. [`macro@job`] on a function makes the
//!   payload's type; [`macro@Job`] declares one of your own. [`State`](struct@State) and
//!   [`JobContext`] are arguments that are not part of the payload.
//! * A [`Client`] enqueues jobs, and lists and puts back failed jobs ([`Client::failed`]).
//! * A [`WorkerPool`] takes jobs from their queues and runs them. Many pools in many
//!   processes compete for them.
//! * An **event** is published under a topic ([`Client::publish`]). Every job that
//!   subscribes to it (`#[job(on = "user.*")]`) gets a copy in its own queue, with its own
//!   retries and failed jobs.
//! * An **engine** stores the jobs: RabbitMQ for `amqp://` URLs, a SQLite file for `sqlite://`
//!   URLs. The same program runs on both.
//!
//!
//! # How an attempt ends
//!
//! | the function | what happens |
//! |---|---|
//! | returns `Ok` | the job is done |
//! | returns `Err`, panics, or exceeds its `timeout` | another attempt after the job's `delay`, or failed as [`Exhausted`](FailedReason::Exhausted) |
//! | returns [`abort`]`(error)` | failed at once, as [`Aborted`](FailedReason::Aborted) |
//! | returns [`retry_in`]`(wait, error)` | another attempt after this wait, or failed as `Exhausted` |
//! | returns [`snooze`]`(wait)` | runs again after this wait; uses no attempt |
//!
//! A failed job is kept, with its error and its [`FailedReason`], until it is put back or
//! discarded.
//!
//! # Guarantees
//!
//! A job that [`enqueue`](Client::enqueue) accepted runs at least once, or becomes a failed job,
//! whatever crashes. It may run more than once: after a crash, a lost connection, or the end of a
//! shutdown timeout while it was in flight. It never starts before it is due.
//!
//! # Waits
//!
//! Every wait works the same on both engines: [`delay`](Enqueue::delay) and [`at`](Enqueue::at)
//! before the first attempt, the job's `delay` between attempts, [`retry_in`], [`snooze`]. The
//! broker or the file holds waiting jobs, and no job is blocked by another one's wait.
//!
//! On RabbitMQ each wait of a constant `delay` or a list has a queue, a *tier*. All others are
//! rounded up to 100 milliseconds and pass through *delay levels*, one queue for each digit of the
//! wait. They hold up to 3,650 days: enqueueing with a longer delay is an
//! [invalid](ErrorKind::Invalid) argument, and a longer [`retry_in`] or [`snooze`] waits for 3,650
//! days.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `rabbitmq` | yes | `amqp://` |
//! | `sqlite` | yes | `sqlite:` |
//! | `tls` | no | `amqps://`, with `rustls` |
//! | `management` | no | policies, bindings and nodes from RabbitMQ's management API, if its URL is set; includes `tls` |
//! | `testing` | no | the test kit [`testing`], and the conformance suite for engines |

mod admin;
mod background;
mod client;
mod clock;
pub mod engine;
mod error;
mod finding;
mod guard;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
#[doc(hidden)]
pub mod internals;
mod job;
pub mod period;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
mod retry;
#[cfg(feature = "sqlite")]
mod sqlite;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use admin::FailedJobs;
pub use client::{
    Client, ClientBuilder, DeleteSubscriber, DeleteSubscriberFuture, Doctor, DoctorFuture, Enqueue,
    EnqueueAll, EnqueueAllError, EnqueueAllFuture, EnqueueFuture, IntoPeriod, Outgoing, Publish,
    PublishFuture, doctor,
};
pub use clock::Clock;
pub use error::{Error, ErrorKind, Result};
pub use finding::{Finding, FindingKind, Report, Severity};
pub use job::{
    BoxError, Control, Delay, Envelope, Event, EventEnvelope, Exponential, FailedJob, FailedReason,
    Headers, Job, JobId, JobOptions, JobResult, MAX_PAYLOAD, Outcome, abort, queue_of, retry_in,
    snooze,
};
pub use jobq_derive::{Event, Job, job};
pub use worker::{
    Attempt, Extensions, FromAttempt, JobContext, JobFunction, Next, PoolHealth, QueueHealth,
    QueueState, Requires, Run, RunningPool, State, WorkerPool,
};

/// Compiles the programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the programs in the page on events.
#[cfg(doctest)]
#[doc = include_str!("../../docs/events.md")]
struct Events;

/// Compiles the programs in the page on the doctor.
#[cfg(doctest)]
#[doc = include_str!("../../docs/doctor.md")]
struct DoctorPage;

/// Compiles the programs in the page on deploying.
#[cfg(doctest)]
#[doc = include_str!("../../docs/deploying.md")]
struct Deploying;

/// Compiles the programs in the page on tests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct TestingPage;

/// Items used by the code of the macros. Not public API: it may change in any version.
#[doc(hidden)]
pub mod __private {
    pub use core;
    pub use core::time::Duration;
    pub use serde;

    pub use crate::job::{BoxError, Delay, Event, Exponential, Job, JobOptions, JobResult};
    pub use crate::worker::{
        Attempt, Call, FromAttempt, JobContext, Requires, Run, State, Travels,
    };
}
