//! Worker pools.
//!
//! The path of a delivery:
//!
//! 1. [`queue`] takes it from the engine's consumer, while the [`flow`] is open, into its [`book`],
//!    where it waits for a slot. [`prefetch`] computes how many deliveries are taken ahead.
//! 2. [`in_flight`] admits it, or holds it as a redelivery of a job in flight.
//! 3. [`decision`] looks its job up in the [`registry`], and a [`slot`] calls the function: the
//!    [`layer`]s of the pool, the arguments that [`extract`] makes from the [`attempt`], and the
//!    function from [`run`] or [`function`].
//! 4. [`decision`] turns the outcome into a settlement, which the queue passes to the engine.
//!
//! The [`observer`] is told of each step. The path knows nobody behind it.
//!
//! Beside the path, [`schedules`] enqueues periodic jobs.
//!
//! A job whose workers crashed goes to [`solo`] instead, which pauses all queues with the
//! [`solo_lock`]. Users build a [`pool`] and get a [`running`] one, with its [`health`].

mod answers;
mod attempt;
mod block_on;
#[cfg(feature = "schedules")]
mod board;
mod book;
mod cancellation;
mod context;
mod decision;
mod extensions;
mod extract;
mod flow;
mod function;
mod hand_back;
mod health;
mod in_flight;
#[cfg(feature = "testing")]
mod inline;
mod layer;
mod observer;
mod pool;
mod prefetch;
mod queue;
mod registry;
mod run;
mod running;
#[cfg(feature = "schedules")]
mod schedules;
mod shared;
mod signal;
mod slot;
mod solo;
mod solo_lock;
mod state;
mod tasks;
mod waiting;

pub use answers::PoolControl;
pub use attempt::Attempt;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use attempt::Resources;
pub use cancellation::Cancellation;
pub use context::JobContext;
#[cfg(feature = "testing")]
pub(crate) use decision::Decision;
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
pub use run::{Call, Run, Travels, TravelsBesideContext};
pub use running::RunningPool;
pub use signal::shutdown_signal;
pub use state::State;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use state::States;
