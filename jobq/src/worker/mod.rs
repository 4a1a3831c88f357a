//! Worker pools: taking jobs from queues and running them.
//!
//! The way of a delivery:
//!
//! 1. [`queue`] takes it from the engine's consumer, and has it wait for a slot. [`prefetch`] says how
//!    many are taken ahead.
//! 2. [`in_flight`] lets it run, or holds it as a redelivery of a job that runs.
//! 3. [`execution`] makes the attempt: it finds the job in what [`registry`] was told, decodes the
//!    payload, calls the function, decides what becomes of the job, and settles the delivery.
//! 4. The call is made of the [`layer`]s of the pool, of the arguments that [`extract`] makes of the
//!    [`attempt`], and of the function as [`run`] or [`function`] has it.
//!
//! A job that its workers died of goes to [`solo`] instead, which has all queues rest at the [`gate`].
//! [`pool`] is what users build, and [`running`] what they get, with its [`health`].

mod attempt;
mod context;
mod execution;
mod extensions;
mod extract;
mod function;
mod health;
mod in_flight;
mod layer;
mod origins;
mod pool;
mod prefetch;
mod queue;
mod registry;
mod run;
mod running;
mod shared;
mod signal;
mod solo;
mod solo_lock;
mod state;
mod tally;

pub use attempt::Attempt;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use attempt::Resources;
pub use context::JobContext;
pub use extensions::Extensions;
pub use extract::{FromAttempt, Requires};
pub use function::JobFunction;
pub use health::{PoolHealth, QueueHealth, QueueState};
pub use layer::Next;
pub use pool::WorkerPool;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use registry::Registered;
pub use run::{Call, Run, Travels};
pub use running::RunningPool;
pub use state::State;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use state::States;
