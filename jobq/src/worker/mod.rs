//! Worker pools: taking jobs from queues and running them.

mod attempt;
mod context;
mod execution;
mod extensions;
mod extract;
mod function;
mod gate;
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
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use layer::Layers;
pub use layer::Next;
pub use pool::WorkerPool;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use registry::Registered;
pub use run::{Call, Run, Travels};
pub use running::RunningPool;
pub use state::State;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use state::States;
