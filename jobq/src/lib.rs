//! A job queue for Rust on RabbitMQ, and without any server on an embedded SQLite file.
//!
//! Annotate a function, enqueue its jobs from anywhere in your code, and run them in worker pools,
//! in the same process or in others:
//!
//! ```no_run
//! use jobq::{BoxError, Client, JobContext, WorkerPool, job};
//!
//! /// Sends a welcome letter.
//! #[job(retries = 3, delay = ["10s", "1m", "10m"], timeout = "2m")]
//! async fn send_welcome(user_id: u64, email: String, ctx: JobContext) -> Result<(), BoxError> {
//!     println!("to {email}: welcome, number {user_id} (attempt {})", ctx.attempt());
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> jobq::Result<()> {
//!     // A file: no server. On RabbitMQ it is "amqp://user:password@host:5672".
//!     let client = Client::connect("sqlite://jobs.db").await?;
//!
//!     // The macro made this type of the function's arguments.
//!     client.enqueue(SendWelcome { user_id: 7, email: "ann@example.com".into() }).await?;
//!
//!     // Until SIGINT, SIGTERM or SIGHUP. In this process or in any other, on this machine or on many.
//!     WorkerPool::new(&client).register::<SendWelcome>().run().await
//! }
//! ```
//!
//! The README says what jobq is for and what it is not for. The book, `docs/README.md` in the
//! repository, leads from a first program to operating a cluster. Its recipes are programs for
//! idempotency keys, schedules, unique jobs, results, rate limits, an outbox and more.
//!
//! # The parts
//!
//! * A **job** is a unit of work: a payload and a function. [`macro@job`] on a function makes the
//!   payload's type, and its documentation has all attributes; [`macro@Job`] declares a payload of
//!   your own. [`State`](struct@State), [`JobContext`] and types with [`FromAttempt`] are arguments
//!   that are not part of the payload.
//! * A [`Client`] enqueues jobs ([`Client::enqueue`]), and lists and retries failed jobs
//!   ([`Client::failed`]). [`Client::connect`] has the forms of its URL.
//! * A [`WorkerPool`] takes jobs from their queues and runs them. Many pools in many
//!   processes compete for them. [Layers](WorkerPool::around) stand around its attempts.
//! * An **event** is published under a topic ([`Client::publish`]). Every job that
//!   subscribes to it (`#[job(on = "user.*")]`) gets a copy in its own queue, with its own
//!   retries and failed jobs.
//! * An **engine** stores the jobs: RabbitMQ for `amqp://` URLs, a SQLite file for `sqlite://`
//!   URLs. The same program runs on both.
//! * The [doctor] finds settings of a broker or a file that weaken the guarantees.
//!
//! # How an attempt ends
//!
//! | the function | what happens |
//! |---|---|
//! | returns `Ok` | the job is done |
//! | returns `Err`, panics, or exceeds its `timeout` | another attempt after the job's `delay`, or failed as [`Exhausted`](FailedReason::Exhausted) |
//! | returns `Err` of [`abort`]`(error)` | failed at once, as [`Aborted`](FailedReason::Aborted) |
//! | returns `Err` of [`retry_in`]`(wait, error)` | another attempt after this wait, or failed as `Exhausted` |
//! | returns `Err` of [`snooze`]`(wait)` | runs again after this wait; uses no attempt |
//!
//! The last three are errors for `?`, or for `return Err(abort("the account is closed").into())`.
//!
//! A failed job is kept, with its error and its [`FailedReason`], until it is retried or
//! discarded.
//!
//! # Guarantees
//!
//! * A job that [`enqueue`](Client::enqueue) accepted runs at least once, or becomes a failed job,
//!   whatever crashes.
//! * It may run more than once: after a crash, a lost connection, or the end of a shutdown timeout
//!   while it was in flight. Write job functions that can bear it, for example with
//!   [`JobContext::id`] as a key of their effect.
//! * It never starts before it is due, and none waits behind another one's delay.
//! * When `enqueue` fails, [`Error::maybe_enqueued`] tells whether the job may be there all the
//!   same.
//! * No input stops a pool. A payload that cannot be read becomes a failed job; a job of an unknown
//!   name does so after ten minutes of retries.
//! * A job that kills its worker process, in three runs with nothing beside it, becomes a failed
//!   job, and the others complete.
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
//! | `bundled-sqlite` | yes | SQLite itself; without it, `sqlite` links the system's `libsqlite3` |
//! | `tls` | no | `amqps://`, with `rustls` |
//! | `management` | no | policies, bindings and nodes from RabbitMQ's management API, if its URL is set; includes `tls` |
//! | `schedules` | no | periodic jobs: [`schedule`], [`Client::schedule`] and the keys `cron` and `every` of [`job`](macro@job) |
//! | `testing` | no | the test kit [`testing`], and the conformance suite for engines |

pub mod admin;
mod awaitable;
mod background;
mod client;
mod clock;
mod credentials;
pub mod engine;
mod error;
mod finding;
mod guard;
mod host;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
#[doc(hidden)]
pub mod internals;
mod job;
pub mod metrics;
pub mod moving;
pub mod outbox;
pub mod period;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
pub mod relay;
mod repeated;
mod retry;
#[cfg(feature = "schedules")]
pub mod schedule;
pub mod setting;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
mod suspension;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod traces;
mod worker;

pub use admin::FailedJobs;
pub use client::{
    Client, ClientBuilder, DeleteSubscriber, DeleteSubscriberFuture, Doctor, DoctorFuture, Enqueue,
    EnqueueAll, EnqueueAllError, EnqueueAllFuture, EnqueueFuture, EnqueueNamed, EnqueueNamedFuture,
    IntoTopic, Outgoing, Publish, PublishFuture, doctor,
};
#[cfg(feature = "schedules")]
pub use client::{ScheduleJob, ScheduleJobFuture};
pub use clock::Clock;
pub use credentials::{Credentials, Secret};
pub use engine::Migrated;
pub use error::{Error, ErrorKind, Result};
pub use finding::{Finding, FindingKind, Report, Severity};
pub use job::{
    BoxError, Control, Delay, Event, Exponential, FailedJob, FailedReason, Headers, Job, JobId,
    JobOptions, JobResult, MAX_PAYLOAD, Outcome, Priority, abort, queue_of, retry_in, snooze,
};
#[cfg(feature = "schedules")]
pub use job::{Missed, Periodic};
pub use jobq_derive::{Event, Job, job};
pub use period::IntoPeriod;
pub use traces::{Propagation, Trace};
pub use worker::{
    Attempt, Cancellation, Extensions, FromAttempt, JobContext, JobFunction, Next, PoolControl,
    PoolHealth, QueueHealth, QueueState, Requires, Run, RunningPool, State, WorkerPool,
    shutdown_signal,
};

/// Compiles the programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the programs in the page for the start.
#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
struct Start;

/// Compiles the programs in the page on concepts.
#[cfg(doctest)]
#[doc = include_str!("../../docs/concepts.md")]
struct Concepts;

/// Runs the programs in the page of recipes.
#[cfg(all(doctest, feature = "sqlite", feature = "testing"))]
#[doc = include_str!("../../docs/recipes.md")]
struct Recipes;

/// Compiles the programs in the page on layers and headers.
#[cfg(doctest)]
#[doc = include_str!("../../docs/layers.md")]
struct LayersPage;

/// Compiles the programs in the page on failed jobs.
#[cfg(doctest)]
#[doc = include_str!("../../docs/failed-jobs.md")]
struct FailedJobsPage;

/// Compiles the programs in the page on RabbitMQ.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rabbitmq.md")]
struct RabbitMqPage;

/// Compiles the programs in the page on periodic jobs.
#[cfg(all(doctest, feature = "schedules", feature = "sqlite"))]
#[doc = include_str!("../../docs/scheduling.md")]
struct SchedulingPage;

/// Compiles the programs in the page on priorities.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../docs/priorities.md")]
struct PrioritiesPage;

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

/// Compiles the programs in the page on logs.
#[cfg(doctest)]
#[doc = include_str!("../../docs/logs.md")]
struct Logs;

/// Compiles the programs in the page on tests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct TestingPage;

/// The options of a periodic job. Used by the code of the macros.
#[cfg(feature = "schedules")]
#[doc(hidden)]
#[macro_export]
macro_rules! __periodic {
    ($options:expr, $times:expr) => {
        $options.periodic($times)
    };
}

/// The error of a periodic job without its feature. Used by the code of the macros.
#[cfg(not(feature = "schedules"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __periodic {
    ($options:expr, $times:expr) => {{
        compile_error!(
            "periodic jobs need the feature `schedules` of jobq: add it in Cargo.toml, `features = \
             [\"schedules\"]`"
        );
        $options
    }};
}

/// Items used by the code of the macros. Not public API: it may change in any version.
#[doc(hidden)]
pub mod __private {
    pub use core;
    pub use core::time::Duration;
    pub use serde;

    pub use crate::job::{
        BoxError, Delay, Event, Exponential, Job, JobOptions, JobResult, Priority,
    };
    #[cfg(feature = "schedules")]
    pub use crate::job::{Missed, Periodic};
    pub use crate::worker::{
        Attempt, Call, FromAttempt, JobContext, Requires, Run, State, Travels, TravelsBesideContext,
    };
}
