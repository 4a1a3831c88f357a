//! Worker pools.
//!
//! The path of a delivery:
//!
//! 1. [`queue`] takes it from the engine's consumer and queues it for a slot. [`prefetch`] computes
//!    how many deliveries are taken ahead.
//! 2. [`in_flight`] admits it, or holds it as a redelivery of a running job.
//! 3. [`execution`] makes the attempt: it looks the job up in the [`registry`], decodes the
//!    payload, calls the function, decides the settlement, and settles the delivery.
//! 4. The call consists of the [`layer`]s of the pool, the arguments that [`extract`] makes from
//!    the [`attempt`], and the function from [`run`] or [`function`].
//!
//! A job whose workers crashed goes to [`solo`] instead, which pauses all queues with the
//! [`solo_lock`]. Users build a [`pool`] and get a [`running`] one, with its [`health`].

mod attempt;
mod cancellation;
mod context;
mod control;
mod execution;
mod extensions;
mod extract;
mod function;
mod health;
mod in_flight;
#[cfg(feature = "testing")]
mod inline;
mod layer;
mod live;
mod minute;
mod origins;
mod pool;
mod prefetch;
mod queue;
mod registry;
mod run;
mod running;
mod shared;
mod signal;
mod slot;
mod solo;
mod solo_lock;
mod state;
mod tally;
mod tasks;
mod watched;

pub use attempt::Attempt;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use attempt::Resources;
pub use cancellation::Cancellation;
pub use context::JobContext;
pub use control::PoolControl;
#[cfg(feature = "testing")]
pub(crate) use execution::Decision;
pub use extensions::Extensions;
pub use extract::{FromAttempt, Requires};
pub use function::JobFunction;
pub use health::{PoolHealth, QueueHealth, QueueState};
#[cfg(feature = "testing")]
pub(crate) use inline::{Inline, InlineBuilder};
pub use layer::Next;
pub use pool::WorkerPool;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use registry::Registered;
pub use run::{Call, Run, Travels};
pub use running::RunningPool;
pub use state::State;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use state::States;
